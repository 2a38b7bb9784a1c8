package outbox

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func newTestBreakers(pause time.Duration) (*breakers, *journal) {
	log := &journal{}
	return newBreakers(pause, slog.New(slog.NewTextHandler(log, nil))), log
}

// of is an event of its own.
func of(eventType string, trial bool) Claimed {
	return Claimed{Envelope: Envelope{ID: uuid.New(), EventType: eventType}, Trial: trial}
}

// fails opens the breaker of a healthy type by two events.
func (b *breakers) fails(eventType string) (delay time.Duration) {
	b.ended(of(eventType, false), out)
	return b.ended(of(eventType, false), out)
}

// claims notes a trial and returns its event.
func (b *breakers) claims(eventType string) Claimed {
	event := of(eventType, true)
	b.tries(event)
	return event
}

// tried begins and ends a trial.
func (b *breakers) tried(eventType string, tells health) { b.ended(b.claims(eventType), tells) }

// plan writes down asks in a short form.
func plan(asks []ask) (s string) {
	for _, a := range asks {
		s += fmt.Sprintf("%v %d", a.types, a.limit)
		if a.trial {
			s += " trial"
		}
		s += "; "
	}
	return s
}

func TestP6_BreakerOpensTriesAndCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, log := newTestBreakers(5 * time.Second)
		types := []string{"a", "b", "c"}
		expect := func(want string) {
			t.Helper()
			if diff := cmp.Diff(want, plan(b.asks(types, 100))); diff != "" {
				t.Fatal(diff)
			}
		}
		expect("[a b c] 100; ")
		b.ended(of("a", false), well)
		b.ended(of("a", false), unknown)
		expect("[a b c] 100; ")

		// One failure may be the event's own.
		b.ended(of("a", false), out)
		expect("[a b c] 100; ")
		delay := b.ended(of("a", false), out)
		if rest := b.rest("a"); rest < 3750*time.Millisecond || rest > 6250*time.Millisecond || delay <= rest {
			t.Errorf("rests for %v, and the event is put off for %v", rest, delay)
		}
		if b.rest("b") != 0 {
			t.Error("b rests too")
		}
		expect("[b c] 100; ")
		// Those that were under way fail too, and tell nothing new.
		before := b.rest("a")
		for range 50 {
			if delay := b.ended(of("a", false), out); delay <= before {
				t.Errorf("a straggler is put off for %v only", delay)
			}
		}
		if b.rest("a") != before {
			t.Error("stragglers moved the end of the pause")
		}

		elapse(before)
		expect("[a] 1 trial; [b c] 99; ")
		first := b.claims("a")
		expect("[b c] 100; ")
		// The old ones tell nothing now either, good or bad.
		b.ended(of("a", false), well)
		b.ended(of("a", false), out)
		expect("[b c] 100; ")
		b.ended(first, well)
		expect("[a] 2 trial; [b c] 98; ")

		// Twice as many need as many successes, and a second each.
		for quota := 2; quota < fullQuota; quota *= 2 {
			for range quota - 1 {
				b.tried("a", well)
			}
			elapse(time.Second)
			if got := b.types["a"].quota; got != quota {
				t.Fatalf("quota %d after %d successes, want %d still", got, quota-1, quota)
			}
			b.tried("a", well)
			for range 10 * quota {
				b.tried("a", well)
			}
			if one := b.types["a"]; one != nil && one.quota != 2*quota {
				t.Fatalf("quota %d in less than a second, want %d", one.quota, 2*quota)
			}
		}
		expect("[a b c] 100; ")
		if log.lines("pauses", "event_type=a") != 1 || log.lines("full speed") != 1 {
			t.Errorf("\n%s", log)
		}
	})
}

// A trial that ends without a verdict is counted back: else its type would never be claimed again.
func TestP6_EveryTrialIsCountedBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, _ := newTestBreakers(time.Second)
		b.fails("a")
		for _, tells := range []health{unknown, out, unknown, out, unknown} {
			elapse(maxPause * 2)
			if got := plan(b.asks([]string{"a"}, 10)); got != "[a] 1 trial; " {
				t.Fatalf("after a trial that ended: %q", got)
			}
			trial := b.claims("a")
			if got := plan(b.asks([]string{"a"}, 10)); got != "" {
				t.Fatalf("beside a trial: %q", got)
			}
			b.ended(trial, tells)
		}
	})
}

// Each pause is twice the last, to a bound, and a failed trial begins anew with one.
func TestP6_PausesGrowToABound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, _ := newTestBreakers(time.Second)
		b.fails("a")
		want := time.Second
		for range 12 {
			rest := b.rest("a")
			if rest < want*3/4 || rest > want*5/4 {
				t.Errorf("rests for %v, want about %v", rest, want)
			}
			elapse(rest)
			trials := []Claimed{b.claims("a"), b.claims("a"), b.claims("a"), b.claims("a")}
			b.ended(trials[0], well)
			b.ended(trials[1], out)
			b.ended(trials[2], out)
			if one := b.types["a"]; one.quota != 1 || !one.resting() {
				t.Fatalf("%d trials at once after two failed", one.quota)
			}
			b.ended(trials[3], out) // from before the pause
			want = min(2*want, maxPause)
		}
	})
}

func TestTrialsTakeNoMoreThanThereIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, _ := newTestBreakers(time.Second)
		for _, eventType := range []string{"a", "b", "c"} {
			b.fails(eventType)
		}
		elapse(2 * time.Second)
		if got := plan(b.asks([]string{"a", "b", "c", "d"}, 2)); got != "[a] 1 trial; [b] 1 trial; " {
			t.Errorf("with two slots: %s", got)
		}
		if got := plan(b.asks([]string{"a", "b", "c", "d"}, 4)); got != "[a] 1 trial; [b] 1 trial; [c] 1 trial; [d] 1; " {
			t.Errorf("with four slots: %s", got)
		}
	})
}

// The event that was out last tells nothing new by being out again, during a real outage either; another one does.
func TestP6_SameEventDoesNotReopen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, log := newTestBreakers(time.Second)
		b.ended(of("a", false), out)
		same := of("a", true)
		b.ended(same, out)
		for range 5 {
			elapse(2 * time.Second)
			b.tries(same)
			b.ended(same, out)
		}
		if log.lines("pauses") != 1 || plan(b.asks([]string{"a"}, 5)) != "[a] 1 trial; " {
			t.Errorf("asks %q\n%s", plan(b.asks([]string{"a"}, 5)), log)
		}
		b.tried("a", out)
		if log.lines("pauses") != 2 {
			t.Errorf("a second event does not reopen:\n%s", log)
		}
	})
}
