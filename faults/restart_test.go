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

// The server crashes at each step, and recovers.
func TestRestartedAtEachStep(t *testing.T) { eachStep(t, restarted) }

// The server takes no writes for a while, as a standby does.
func TestReadOnlyAtEachStep(t *testing.T) { eachStep(t, readOnly) }
