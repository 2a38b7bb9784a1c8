package faults

import (
	"context"
	"testing"
	"time"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

// TestServerStoppedInEachMode: worker processes outlive a server that stops in any of its ways and starts again, and all
// events are delivered, in order, without a repeat.
func TestServerStoppedInEachMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []server.StopMode{server.Smart, server.Fast, server.Immediate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			workers := []*process{r.spawn(never, 4), r.spawn(never, 4)}
			for seq := 1; seq <= 20; seq++ {
				for n := range 20 {
					r.enqueue(draft(n, load{Seq: seq}))
				}
			}
			r.until(`(select count(*) from public.deliveries) >= 100`)
			if mode == server.Smart {
				// It waits for the sessions to end by themselves, which those of workers do not.
				r.stopSmart(workers)
				workers = []*process{r.spawn(never, 4)}
				r.until(`exists (select from public.outbox_workers)`) // it hears signals
			} else {
				r.bounce(mode)
			}
			r.until(allProcessed)
			for _, worker := range workers {
				worker.stop()
			}
			v := r.verdict()
			v.expectClean(t, 400)
			if v.Duplicates != 0 {
				t.Errorf("%d repeats", v.Duplicates)
			}
		})
	}
}

// stopSmart tells the server to stop, sees it wait, stops the workers, and starts it again when it is gone.
func (r *rig) stopSmart(workers []*process) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- r.server.Stop(ctx, server.Smart) }()
	for _, worker := range workers {
		worker.stop()
	}
	r.pool.Reset()
	r.must(<-stopped)
	r.must(r.server.Start(ctx))
	r.until(`true`)
}

// TestReadOnlyServer: while the server takes no writes nothing is lost and nobody gives up; when it does again the work goes on.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	worker := r.spawn(never, 4)
	r.enqueue(draft(1, load{Seq: 1}))
	r.until(allProcessed)
	// As a standby does, it refuses writes whatever a session asks for; a role's default would be asked away.
	r.exec(`create function public.refuse() returns trigger language plpgsql as $$ begin
		raise exception 'read-only' using errcode = '25006'; end $$`)
	r.exec(`create trigger refuse before update on public.outbox_events for each statement execute function public.refuse()`)
	r.enqueue(draft(1, load{Seq: 2}), draft(2, load{Seq: 1}))
	r.until(`(select count(*) from public.outbox_events where status = 'pending') = 2`)
	if err := r.eventually(time.Second, allProcessed); err == nil {
		t.Fatal("processed although the server takes no writes")
	}
	r.exec(`drop trigger refuse on public.outbox_events`)
	r.until(allProcessed)
	worker.stop()
	v := r.verdict()
	v.expectClean(t, 3)
	if v.Duplicates != 0 {
		t.Errorf("%d repeats", v.Duplicates)
	}
}
