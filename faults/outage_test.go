package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/internal/pgtest/server"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

const (
	// outage is longer than the silence after which a worker may be taken for dead.
	outage = 12 * time.Second
	// judged is when any worker that was to take over after an outage would have done so.
	judged = `clock_timestamp() - pg_postmaster_start_time() > interval '16 s'`
)

// stubborn is a worker whose handlers do not heed their contexts.
type stubborn struct {
	*network
	stop func(context.Context) error
	// begun takes a number for each handler that begins, finish lets them end.
	begun  chan int
	finish chan struct{}
	// causes takes why a handler's context had ended by then, settled what became of its event.
	causes  chan error
	settled chan outbox.Outcome
}

func (r *rig) stubborn(concurrency int) *stubborn {
	r.Helper()
	s := &stubborn{network: newNetwork(r), begun: make(chan int, 100), finish: make(chan struct{}), causes: make(chan error, 100), settled: make(chan outbox.Outcome, 100)}
	var handlers outbox.Handlers
	outbox.Handle(&handlers, happened, func(ctx context.Context, e event.Event[load]) error {
		s.begun <- e.Payload.Seq
		<-s.finish
		s.causes <- context.Cause(ctx)
		return nil
	})
	s.stop = s.worker(nil, &handlers, outbox.Config{Concurrency: concurrency, PollInterval: 100 * time.Millisecond, Observer: outbox.Observer{
		Settled: func(_ event.Envelope, outcome outbox.Outcome) { s.settled <- outcome },
	}})
	return s
}

// blackout stops the server for longer than any worker may be silent.
func (r *rig) blackout() {
	r.Helper()
	ctx := context.Background()
	r.must(r.server.Stop(ctx, server.Fast))
	<-time.After(outage)
	r.must(r.server.Start(ctx))
	r.pool.Reset()
	r.until(`true`)
}

// After an outage all workers have been silent for too long. None takes over what another one holds that comes back, be it some
// seconds later: no handler begins twice, and every acknowledgement counts.
func TestOutageLongerThanSilence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	workers := []*stubborn{r.stubborn(3), r.stubborn(3)}
	r.until(`(select count(*) from public.outbox_workers where seen_at > started_at) = 2`) // each has been heard
	for n := range 6 {
		r.enqueue(draft(n, load{Seq: 1}), draft(n, load{Seq: 2}))
	}
	r.wait(func() bool { return len(workers[0].begun) == 3 && len(workers[1].begun) == 3 })
	workers[1].proxy.Stop()
	r.blackout()
	r.until(`clock_timestamp() - pg_postmaster_start_time() > interval '4 s'`) // the first one back has had a look at the others
	r.must(workers[1].proxy.Start())
	r.until(judged + ` and (select count(*) from public.outbox_workers where clock_timestamp() - seen_at < interval '8 s') = 2`)
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'processing' and attempts = 1 and crashes = 0`); n != 6 {
		t.Errorf("%d of 6 events are still held by whom they were", n)
	}
	for _, w := range workers {
		close(w.finish)
	}
	r.until(allProcessed)
	for _, w := range workers {
		r.must(w.stop(context.Background()))
		for range 3 { // those of before the outage; in it they were told that others might be doing their work
			if cause := <-w.causes; !errors.Is(cause, outbox.ErrLeaseLost) {
				t.Errorf("a handler's context ended with %v", cause)
			}
		}
	}
	if n := len(workers[0].begun) + len(workers[1].begun); n != 12 {
		t.Errorf("%d handlers began for 12 events", n)
	}
	for _, w := range workers {
		for len(w.settled) > 0 {
			if got := <-w.settled; got != outbox.OutcomeProcessed {
				t.Errorf("an acknowledgement ended as %s", got)
			}
		}
	}
}

// One of two workers stays cut off after an outage: the other one takes its event over, and when the first one is back, its
// handler still at work, its acknowledgement counts for nothing and lets nothing pass.
func TestOutageThatOneDoesNotComeBackFrom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lost := r.stubborn(1)
	r.until(`exists (select from public.outbox_workers)`)
	r.enqueue(draft(1, load{Seq: 1}), draft(1, load{Seq: 2}))
	if seq := <-lost.begun; seq != 1 {
		t.Fatalf("it begins with %d", seq)
	}
	other := r.stubborn(1)
	r.until(`(select count(*) from public.outbox_workers) = 2`)
	lost.proxy.Stop()
	r.blackout()
	r.wait(func() bool { return len(other.begun) == 1 })
	r.must(lost.proxy.Start())
	close(lost.finish)
	if got := <-lost.settled; got != outbox.OutcomeLost {
		t.Errorf("the acknowledgement of the one that was taken for dead ended as %s", got)
	}
	const state = `select array[status, attempts::text, crashes::text] from public.outbox_events order by created_at, id limit 1`
	if diff := cmp.Diff([]string{"processing", "1", "1"}, value[[]string](r, state)); diff != "" {
		t.Errorf("the event while its second handler runs (-want +got):\n%s", diff)
	}
	if seq, n := <-other.begun, len(lost.begun)+len(other.begun); seq != 1 || n != 0 {
		t.Errorf("the other one began with %d, and %d more began", seq, n)
	}
	close(other.finish)
	r.until(allProcessed)
	for _, w := range []*stubborn{lost, other} {
		r.must(w.stop(context.Background()))
	}
	if n := len(lost.begun) + len(other.begun); n != 1 {
		t.Errorf("%d handlers began after that, want that of the second event", n)
	}
}
