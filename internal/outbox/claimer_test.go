package outbox

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Case O5: the next event of an aggregate is claimed at once after an acknowledgement, not a pause later.
func TestO5_NextOfAggregateAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for range 50 {
			rail.add("a", 1)
		}
		begun := time.Now()
		b := launch(t, rail, testConfig("a"), processed)
		synctest.Wait()
		// The first pause is a millisecond: not one has ended.
		if n := rail.count("processed"); n != 50 || time.Since(begun) != 0 {
			t.Errorf("%d of 50 processed after %v", n, time.Since(begun))
		}
		b.stop()
	})
}

// Claims never ask for more than can be started, and what is claimed is started.
func TestClaimsNoMoreThanCanStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 100 {
			rail.add("a", n)
		}
		var running, most atomic.Int32
		b := launch(t, rail, testConfig("a"), func(context.Context, Claimed) Result {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			elapse(time.Second)
			running.Add(-1)
			return Result{Outcome: Processed}
		})
		for range 9 {
			elapse(time.Second)
			synctest.Wait()
			if n := rail.count("processing"); n > 10 {
				t.Fatalf("%d events are held with 10 slots", n)
			}
		}
		elapse(2 * time.Second)
		if rail.count("processed") != 100 || most.Load() != 10 || slices.Max(rail.limits) != 10 {
			t.Errorf("%d processed, %d at once, at most %d asked for", rail.count("processed"), most.Load(), slices.Max(rail.limits))
		}
		b.stop()
	})
}

// Case L4: with 25 waiting and 4 handlers of 90 seconds nothing is held that does not run, and no attempt is spent on it.
func TestL4_NothingHeldThatDoesNotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 25 {
			rail.add("a", n)
		}
		cfg := testConfig("a")
		cfg.Concurrency, cfg.StopTimeout = 4, time.Hour
		b := launch(t, rail, cfg, func(context.Context, Claimed) Result {
			elapse(90 * time.Second)
			return Result{Outcome: Processed}
		})
		elapse(100 * time.Second)
		b.stop()
		for _, row := range rail.rows {
			if row.status == "pending" && row.attempts != 0 || row.status == "processing" {
				t.Errorf("%s with %d attempts is left", row.status, row.attempts)
			}
		}
		if n := rail.count("processed"); n != 8 {
			t.Errorf("%d processed, want the 8 that had begun", n)
		}
	})
}

// A claim's reply may be late: then its handlers would begin with less lease than they need.
func TestL4_SlowClaimIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		rail.add("a", 1)
		rail.after = func(ctx context.Context, call string) error {
			if call == "claim" && rail.called("claim") == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		cfg := testConfig("a")
		cfg.Lease = 30 * time.Second
		begun := time.Now()
		var started time.Duration
		b := launch(t, rail, cfg, func(context.Context, Claimed) Result {
			started = time.Since(begun)
			return Result{Outcome: Processed}
		})
		elapse(time.Minute)
		b.stop()
		if started < 10*time.Second || started > 11*time.Second || rail.rows[0].attempts != 1 {
			t.Errorf("started after %v with %d attempts; want the claim to be given up after a third of the lease", started, rail.rows[0].attempts)
		}
	})
}
