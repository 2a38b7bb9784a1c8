package outbox_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// drain returns "type n: outcome error" for each delivery of one call.
func (r *rig) drain(w *outbox.Worker) (told []string) {
	r.Helper()
	err := w.Drain(context.Background(), func(d outbox.Delivery) {
		told = append(told, d.EventType+" "+d.IdempotencyKey+": "+string(d.Outcome)+" "+d.Error)
	})
	if err != nil {
		r.Fatal(err)
	}
	return told
}

func keyed(of event.Definition[payload], n int, key string) event.Draft {
	return of.New("order", agg(n), key, payload{n})
}

// TestDrainOutcomes: one delivery per due event and call, in order, each with what the rail recorded; the rest waits.
func TestDrainOutcomes(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Setting("default_transaction_isolation", "serializable"))
	ends := []error{nil, event.Discard(errors.New("no")), event.Snooze(0, errors.New("later")), errors.New("oh"),
		event.RetryAfter(time.Hour, errors.New("soon")), event.Unavailable(errors.New("out")), errPanic, errGoexit}
	var handlers outbox.Handlers
	outbox.Handle(&handlers, typeA, func(_ context.Context, e event.Event[payload]) error {
		switch err := ends[e.Payload.N]; err {
		case errPanic:
			panic("at the wheel")
		case errGoexit:
			runtime.Goexit()
			return nil
		default:
			return err
		}
	})
	outbox.HandleTx(&handlers, typeB, func(context.Context, pgx.Tx, event.Event[payload]) error { return nil })
	w, err := outbox.NewWorker(r.db.Pool, &handlers, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range ends {
		r.enqueue(keyed(typeA, n, string(rune('0'+n))))
	}
	r.enqueue(keyed(typeB, 0, "tx"), keyed(typeA, 3, "behind"), keyed(typeA, 50, "later").WithDelay(time.Hour))
	got := r.drain(w)
	for i, line := range got {
		got[i], _, _ = cutLine(line)
	}
	want := []string{"a 0: processed ", "a 1: discarded discard: no", "a 2: snoozed snooze for 0s: later", "a 3: failed oh",
		"a 4: failed retry after 1h0m0s: soon", "a 5: snoozed downstream unavailable: out", "a 6: failed panic: at the wheel",
		"a 7: failed handler left its goroutine (runtime.Goexit)", "b tx: processed "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	if again := r.drain(w); len(again) > 0 {
		t.Errorf("nothing is due, yet these came: %v", again)
	}
}

var (
	errPanic  = errors.New("panic")
	errGoexit = errors.New("goexit")
)

// cutLine leaves a stack out.
func cutLine(text string) (string, string, bool) {
	for i, c := range text {
		if c == '\n' {
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// TestDrainFollowsAnAggregate: what a success makes way for is handled in the same call, and so is what a handler enqueues.
func TestDrainFollowsAnAggregate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var order []int
	var handlers outbox.Handlers
	outbox.Handle(&handlers, typeA, func(_ context.Context, e event.Event[payload]) error {
		if order = append(order, e.Payload.N); e.Payload.N == 3 {
			r.enqueue(typeA.New("order", agg(1), "child", payload{4}))
		}
		return nil
	})
	w, err := outbox.NewWorker(r.db.Pool, &handlers, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		r.enqueue(typeA.New("order", agg(1), string(rune('a'+n)), payload{n}))
	}
	r.drain(w)
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	r.done()
}

// TestDrainEndsWithItsContext: the event under way is given back with its attempt, and the others stay untouched.
func TestDrainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	var handlers outbox.Handlers
	outbox.Handle(&handlers, typeA, func(ctx context.Context, _ event.Event[payload]) error {
		cancel()
		return ctx.Err()
	})
	w, err := outbox.NewWorker(r.db.Pool, &handlers, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r.enqueue(draft(typeA, 1), draft(typeA, 2))
	var outcomes []outbox.Outcome
	err = w.Drain(ctx, func(d outbox.Delivery) { outcomes = append(outcomes, d.Outcome) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if diff := cmp.Diff([]outbox.Outcome{outbox.OutcomeReleased}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'pending' and attempts = 0`); n != 2 {
		t.Errorf("%d of 2 events are as before", n)
	}
}

func TestDrainRefusesWhatRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(oneHandler(), outbox.Config{})
	if err := w.Drain(t.Context(), nil); !errors.Is(err, outbox.ErrStarted) {
		t.Errorf("error %v, want ErrStarted", err)
	}
	stopped, err := outbox.NewWorker(r.db.Pool, oneHandler(), outbox.Config{})
	r.check(err)
	r.check(stopped.Stop(t.Context()))
	if err := stopped.Drain(t.Context(), nil); !errors.Is(err, outbox.ErrStarted) {
		t.Errorf("after Stop: error %v, want ErrStarted", err)
	}
}

// A worker that drains does nothing else; once the drain has ended, be it by a panic of the caller's own, it can.
func TestOneDrainAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeA, 2))
	w, err := outbox.NewWorker(r.db.Pool, oneHandler(), outbox.Config{})
	r.check(err)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the caller's panic did not reach it")
			}
		}()
		_ = w.Drain(t.Context(), func(outbox.Delivery) {
			if err := w.Run(t.Context()); !errors.Is(err, outbox.ErrStarted) {
				t.Errorf("Run beside Drain: error %v, want ErrStarted", err)
			}
			if err := w.Drain(t.Context(), nil); !errors.Is(err, outbox.ErrStarted) {
				t.Errorf("Drain beside Drain: error %v, want ErrStarted", err)
			}
			panic("the caller's")
		})
	}()
	if told := r.drain(w); len(told) != 1 {
		t.Errorf("then it drains %v, want the second event", told)
	}
	r.until(`not exists (select from pg_stat_activity where datname = current_database() and application_name = 'pgrail worker')`)
	r.enqueue(draft(typeA, 3))
	r.check(w.Drain(t.Context(), func(outbox.Delivery) { r.check(w.Stop(t.Context())) }))
	if err := w.Run(t.Context()); !errors.Is(err, outbox.ErrStarted) {
		t.Errorf("after a Stop during Drain: error %v, want ErrStarted", err)
	}
}

// TestObserver: a running worker tells of its claims and of what became of each event.
func TestObserver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	var claims int
	settled := map[string]outbox.Outcome{}
	var handlers outbox.Handlers
	outbox.Handle(&handlers, typeA, func(_ context.Context, e event.Event[payload]) error {
		if e.Payload.N == 2 {
			return event.Discard(errors.New("no"))
		}
		return nil
	})
	outbox.HandleTx(&handlers, typeB, func(context.Context, pgx.Tx, event.Event[payload]) error { return nil })
	r.enqueue(keyed(typeA, 1, "one"), keyed(typeA, 2, "two"), keyed(typeB, 3, "three"))
	r.work(&handlers, outbox.Config{Observer: outbox.Observer{
		Claimed: func(events int, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if claims += events; took <= 0 {
				t.Errorf("a claim took %v", took)
			}
		},
		Settled: func(e event.Envelope, outcome outbox.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			settled[e.IdempotencyKey] = outcome
		},
	}})
	r.wait("all are settled", func() bool { mu.Lock(); defer mu.Unlock(); return len(settled) == 3 })
	mu.Lock()
	defer mu.Unlock()
	want := map[string]outbox.Outcome{"one": outbox.OutcomeProcessed, "two": outbox.OutcomeDiscarded, "three": outbox.OutcomeProcessed}
	if diff := cmp.Diff(want, settled); diff != "" || claims != 3 {
		t.Errorf("%d events claimed; outcomes (-want +got):\n%s", claims, diff)
	}
}
