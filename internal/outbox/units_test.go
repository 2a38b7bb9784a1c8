package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestGateHandsOutWhatIsFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate(5)
		if a, b := g.take(t.Context(), 3), g.take(t.Context(), 3); a != 3 || b != 2 {
			t.Fatalf("took %d and %d of 5", a, b)
		}
		got := make(chan int)
		go func() { got <- g.take(t.Context(), 4) }()
		synctest.Wait()
		select {
		case n := <-got:
			t.Fatalf("took %d of none", n)
		default:
		}
		g.give(2)
		if n := <-got; n != 2 {
			t.Errorf("took %d of the 2 given back", n)
		}
		g.give(0)
		g.give(5)
		if n := g.take(t.Context(), 10); n != 5 {
			t.Errorf("took %d of 5", n)
		}
	})
}

func TestGateEndsWithTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			if n := g.take(ctx, 1); n != 0 {
				t.Fatalf("took %d after the end", n)
			}
		}
		g.take(t.Context(), 1)
		waiting, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n := g.take(waiting, 1); n != 0 {
			t.Errorf("took %d of none", n)
		}
	})
}

func TestGateTakesAllOrNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate(4)
		g.take(t.Context(), 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g.takeAll(ctx, 4) {
			t.Fatal("took four of two")
		}
		if n := g.take(t.Context(), 9); n != 2 {
			t.Fatalf("%d are left after giving up, want 2", n)
		}
		go func() {
			for range 4 {
				elapse(time.Second) // handlers that end one after the other
				g.give(1)
			}
		}()
		if !g.takeAll(t.Context(), 4) || g.tryTake(1) != 0 {
			t.Error("did not get all four")
		}
	})
}

// Case G6: pauses grow to a bound and no further, and many workers that began together do not stay in step.
func TestG6_IdlePausesGrowAndSpread(t *testing.T) {
	t.Parallel()
	const workers = 50
	at := make([]time.Duration, workers)
	var looks int
	for w := range at {
		pauses := &idle{longest: time.Second}
		last := time.Duration(0)
		for step := 0; at[w] < time.Minute; step++ {
			pause := pauses.next(false)
			whole := min(firstPause<<step, time.Second)
			if step > 20 {
				whole = time.Second
			}
			if pause < whole/2 || pause > whole {
				t.Fatalf("pause %d of %v, want %v to %v", step, pause, whole/2, whole)
			}
			if pauses.deep() != (whole >= deepPause) {
				t.Fatalf("deep is %v at %v", pauses.deep(), whole)
			}
			last, at[w], looks = pause, at[w]+pause, looks+1
		}
		pauses.reset()
		if first := pauses.next(false); first > firstPause || last < time.Second/2 {
			t.Errorf("the first pause after work is %v, the last before was %v", first, last)
		}
	}
	// A minute of an empty queue: ten short looks, and then some 80 a worker.
	if looks > workers*130 {
		t.Errorf("%d looks in a minute", looks)
	}
	// After a minute the next looks fall into ten slots of a second: none may hold much more than its tenth.
	slots := map[int]int{}
	for _, end := range at {
		slots[int((end-time.Minute)/(100*time.Millisecond))]++
	}
	for slot, n := range slots {
		if n > workers/2 {
			t.Errorf("%d of %d workers look in the same tenth of a second (%d)", n, workers, slot)
		}
	}
	for _, longest := range []time.Duration{10 * time.Millisecond, 1} {
		pauses := &idle{longest: longest}
		for range 10 {
			if pause := pauses.next(false); pause > longest {
				t.Errorf("a pause of %v, at most %v was asked for", pause, longest)
			}
		}
		if !pauses.deep() {
			t.Errorf("never deep at %v", longest)
		}
	}
}

// Case D1: what each SQLSTATE means for the loop.
func TestD1_Classes(t *testing.T) {
	t.Parallel()
	for class, states := range map[errorClass][]string{
		passing: {"40001", "40P01", "55P03", "57014", "25006", "57P01", "57P02", "57P03", "57P05", "08000", "08003", "08006", "53300", "53100",
			"58030", "XX000", "0A000", "42804", "25P02", "", "?"},
		refused: {"22000", "22P02", "22021", "23505", "23514", "P0001", "54000", "21000", "44000", "38000", "39000", "2F000"},
		fatal:   {"42501", "42883", "42P01", "42P05", "28000", "28P01", "3D000", "3F000", "26000"},
	} {
		for _, state := range states {
			if got := classify(fmt.Errorf("call: %w", &pgconn.PgError{Code: state})); got != class {
				t.Errorf("%q is %v, want %v", state, got, class)
			}
		}
	}
	for _, err := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, context.Canceled, &pgconn.ConnectError{}} {
		if got := classify(err); got != passing {
			t.Errorf("%v is %v", err, got)
		}
	}
}

func TestAmbiguousErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "57P01"}, true}, {&pgconn.PgError{Code: "57P05"}, true}, {&pgconn.PgError{Code: "08006"}, true},
		{&pgconn.PgError{Code: "57014"}, false}, {&pgconn.PgError{Code: "40001"}, false}, {&pgconn.PgError{Code: "42P01"}, false}, {&pgconn.PgError{}, true},
		{&pgconn.PgError{Code: "?"}, false},
		{io.ErrUnexpectedEOF, true}, {fmt.Errorf("read: %w", context.DeadlineExceeded), true}, {context.Canceled, true},
		{&pgconn.ConnectError{}, false},
	} {
		if got := ambiguous(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestSecondsRoundUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int32{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90, math.MaxInt64: math.MaxInt32, -1: -1, -time.Hour: -1} {
		if got := delaySeconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}

// Case D5, the error texts: whatever a handler says can be stored.
func TestD5_ErrorTextsAreCleaned(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "",
		"plain":                      "plain",
		"bad \xff\xfe bytes":         "bad \uFFFD bytes",
		"nul\x00nul":                 "nul\uFFFDnul",
		strings.Repeat("ü", 2000):    strings.Repeat("ü", 2000),
		strings.Repeat("ü", 2001):    strings.Repeat("ü", 2000),
		strings.Repeat("😀", 100_000): strings.Repeat("😀", 2000),
		"cut in the middle" + strings.Repeat("\xe2\x82", 5000): "cut in the middle\uFFFD",
	} {
		if got := cleanError(text); got != want || !utf8.ValidString(got) {
			t.Errorf("%.20q (%d): %.40q (%d), want %.40q", text, len(text), got, len(got), want)
		}
	}
}

// Case G4, the part in one goroutine: whatever ends a handler, its result is delivered, once.
func TestG4_GuardedDelivers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fn   func() Result
		want []string
	}{
		"return":        {func() Result { return Result{Outcome: Processed} }, nil},
		"panic(err)":    {func() Result { panic(errors.New("the reason")) }, []string{"panic: the reason", "units_test.go"}},
		"panic(nil)":    {func() Result { panic(nil) }, []string{"panic", "nil", "units_test.go"}},
		"panic(string)": {func() Result { panic("text") }, []string{"panic: text"}},
		"nil map":       {func() Result { nilMap()[1] = 1; return Result{} }, []string{"nil map"}},
		"Goexit":        {func() Result { runtime.Goexit(); return Result{} }, []string{"runtime.Goexit"}},
		"deep panic":    {func() Result { return deep(500) }, []string{"panic: deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := make(chan Result, 2)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				guarded(c.fn, func(r Result) { results <- r })
			}()
			<-ended
			if len(results) != 1 {
				t.Fatalf("%d results", len(results))
			}
			got := <-results
			if c.want == nil && got != (Result{Outcome: Processed}) || c.want != nil && (got.Outcome != Retry || got.Delay != -1) {
				t.Errorf("got %+v", got)
			}
			for _, want := range c.want {
				if !strings.Contains(got.Error, want) {
					t.Errorf("%q does not say %q", got.Error, want)
				}
			}
			if len(got.Error) > maxStack+100 {
				t.Errorf("a stack of %d bytes", len(got.Error))
			}
		})
	}
}

func deep(n int) Result {
	if n == 0 {
		panic("deep")
	}
	return deep(n - 1)
}

// A downstream that is out must not fill the log.
func TestDigestSaysItOnceAndCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := &journal{}
		d := digest{slog.New(slog.NewTextHandler(log, nil)), map[tallyKey]*tally{}}
		one := func(eventType, outcome string) {
			d.note(verdict{Claimed{Envelope: Envelope{EventType: eventType, ID: uuid.New()}}, Result{Error: "hunter2"}}, outcome)
		}
		for range 500 {
			one("a", "failed")
		}
		one("a", "discarded")
		one("b", "failed")
		for _, quiet := range []string{"processed", "repeated", "release", "settled"} {
			one("a", quiet)
		}
		if n := log.lines(); n != 3 {
			t.Fatalf("%d lines, want one per type and outcome:\n%s", n, log)
		}
		elapse(digestPeriod)
		one("a", "failed")
		if log.lines("event_type=a", "events=500") != 1 || log.lines("event_type=a", "events=1", "failed") != 1 || log.lines("level=ERROR", "discarded") != 1 {
			t.Errorf("the later line does not count the 499 before it:\n%s", log)
		}
		if log.lines("hunter2") != 0 {
			t.Errorf("the log repeats what a handler said:\n%s", log)
		}
	})
}

func TestStreakSaysBeginningReminderAndEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := &journal{}
		logger := slog.New(slog.NewTextHandler(log, nil))
		var s streak
		for _, err := range []error{nil, io.EOF, io.EOF, io.EOF, nil, nil, io.EOF} {
			s.note(logger, err, "trouble")
		}
		if log.lines("WARN", "trouble", "EOF") != 2 || log.lines("INFO", "no longer") != 1 || log.lines() != 3 {
			t.Errorf("\n%s", log)
		}
		for range 600 {
			elapse(time.Second)
			s.note(logger, io.EOF, "trouble")
		}
		if n := log.lines("WARN"); n != 12 {
			t.Errorf("%d warnings, want one a minute", n)
		}
	})
}

// nilMap hides from analysers what the runtime is to find.
func nilMap() map[int]int { return nil }

// ways are the ways in which a handler can end besides returning.
var ways = []func(){
	func() { panic(errors.New("an error")) },
	func() { panic(nil) },
	func() { runtime.Goexit() },
	func() { panic("text") },
	func() { nilMap()[1] = 1 },
}

// A server's answer about a value may quote it; about anything else it says what to do.
func TestLoggableErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"SQLSTATE 22P05":                          fmt.Errorf("ack: %w", &pgconn.PgError{Code: "22P05", Message: "hunter2"}),
		"SQLSTATE P0001":                          &pgconn.PgError{Code: "P0001", Message: "hunter2"},
		": permission denied (SQLSTATE 42501)":    &pgconn.PgError{Code: "42501", Message: "permission denied"},
		": too many connections (SQLSTATE 53300)": &pgconn.PgError{Code: "53300", Message: "too many connections"},
		"EOF": io.EOF,
	} {
		if got := loggable(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
