package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Many workers start and stop at random moments while events flow: nothing is lost, nothing runs twice at once, no
// session and no goroutine stays behind, and no attempt is spent.
func TestStartStopStorm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const rounds, together, events = 6, 5, 600
	var handled atomic.Int32
	fn := func(context.Context, event.Event[payload]) error { handled.Add(1); return nil }
	var producers sync.WaitGroup
	producers.Go(func() {
		for n := range events / 20 {
			var drafts []event.Draft
			for i := range 20 {
				drafts = append(drafts, draft(typeA, n*7%31+i))
			}
			r.enqueue(drafts...)
		}
	})
	for round := range rounds {
		var workers []*running
		for range together {
			workers = append(workers, r.workOn(r.db, register(typeA, fn), outbox.Config{Concurrency: 1 + round*4}))
		}
		// Not a time but an amount of work later, and in the first rounds none at all.
		for before := handled.Load(); handled.Load() < before+int32(round*10) && handled.Load() < events; {
			value[int](r, `select 1`)
		}
		var stops sync.WaitGroup
		for _, w := range workers {
			stops.Go(func() {
				if err := w.stop(r.TB); err != nil {
					r.Errorf("%v\n%s", err, w.log)
				}
			})
		}
		stops.Wait()
	}
	producers.Wait()
	r.work(register(typeA, fn), outbox.Config{})
	r.done()
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'processed' and attempts = 1`); n != events || handled.Load() != events {
		t.Errorf("%d of %d processed at the first attempt, handled %d times", n, events, handled.Load())
	}
}

// After Stop the caller's pool works, and the worker's own sessions are gone.
func TestStopLeavesThePoolAndNoSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const sessions = `(select count(*) from pg_stat_activity where datname = current_database() and application_name = 'pgrail worker')`
	r.enqueue(draft(typeA, 1))
	w := r.work(oneHandler(), outbox.Config{})
	r.done()
	r.until(`exists (select from public.outbox_workers)`)
	if n := value[int](r, `select `+sessions); n < 2 || n > 5 {
		t.Errorf("%d sessions at work, want 2 to 5", n)
	}
	r.check(w.stop(t))
	r.until(sessions + ` = 0`)
	r.enqueue(draft(typeA, 2))
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'pending'`); n != 1 {
		t.Error("the pool is no longer usable")
	}
}

// Case G2 in public: Stop returns soon after its deadline, names what runs, and leaves what had not started to others.
func TestG2_HandlerIgnoresItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.enqueue(draft(typeA, 1), draft(typeA, 2), draft(typeA, 1))
	release, ended, causes := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	w := r.workOn(r.db, register(typeA, func(ctx context.Context, e event.Event[payload]) error {
		defer func() { ended <- struct{}{} }()
		causes <- nil
		<-release
		causes <- context.Cause(ctx)
		return nil
	}), outbox.Config{Concurrency: 1, StopTimeout: time.Hour})
	receive(t, causes)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.Stop(ctx)
	var left *outbox.StopError
	if !errors.As(err, &left) || len(left.Running) != 1 || len(left.Unsettled) != 0 || !slices.Contains(ids, left.Running[0]) || left.Error() == "" {
		t.Errorf("%v: %+v", err, left)
	}
	if again := w.Stop(t.Context()); again != err {
		t.Errorf("a second Stop: %v", again)
	}
	if err := w.ended(t); !errors.As(err, &left) {
		t.Errorf("Run: %v", err)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'pending' and attempts = 0`); n != 2 {
		t.Errorf("%d of the 2 unstarted events are free and unspent", n)
	}
	r.enqueue(draft(typeA, 9))
	close(release)
	receive(t, ended)
	if cause := receive(t, causes); !errors.Is(cause, outbox.ErrStopping) {
		t.Errorf("cause %v", cause)
	}
}

// Case G1 in public: Run's own context ends just before the handler returns.
func TestG1_AckLandsAfterSIGTERM(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 2))
	ctx, sigterm := context.WithCancel(t.Context())
	// Not before both run: an event that has not been started goes back.
	var running sync.WaitGroup
	running.Add(2)
	end := func(handling context.Context) error {
		running.Done()
		running.Wait()
		sigterm()
		return handling.Err()
	}
	h := register(typeA, func(handling context.Context, _ event.Event[payload]) error { return end(handling) })
	handleTx(h, typeB, func(handling context.Context, _ tx, _ event.Event[payload]) error { return end(handling) })
	worker, err := outbox.NewWorker(r.db.Pool, h, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := value[string](r, `select string_agg(status || ' ' || attempts, ', ') from public.outbox_events`); got != "processed 1, processed 1" {
		t.Error(got)
	}
}
