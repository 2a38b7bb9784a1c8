package outbox

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// Case L1: a handler of 7 minutes with a lease of 5.
func TestL1_LeaseIsExtended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		row := rail.add("a", 1)
		b := launch(t, rail, testConfig("a"), func(ctx context.Context, _ Claimed) Result {
			for range 70 {
				elapse(6 * time.Second)
				rail.mu.Lock()
				left := time.Until(row.due)
				rail.mu.Unlock()
				if left < 3*time.Minute || ctx.Err() != nil {
					t.Fatalf("%v of the lease are left, context %v", left, ctx.Err())
				}
			}
			return Result{Outcome: Processed}
		})
		elapse(8 * time.Minute)
		if row.status != "processed" || row.attempts != 1 || rail.called("extend") > 7 {
			t.Errorf("%s after %d attempts and %d extensions", row.status, row.attempts, rail.called("extend"))
		}
		b.stop()
	})
}

// Case L1, the other half: where extending fails the handler is cancelled with the cause while the lease still holds, and
// the event is not acknowledged as anything but unfinished.
func TestL1_HandlerEndsBeforeItsLease(t *testing.T) {
	for name, failing := range map[string]func(context.Context) error{
		"errors": func(context.Context) error { return errors.New("connection refused") },
		"silence": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rail := newFakeRail()
				row := rail.add("a", 1)
				rail.before = func(ctx context.Context, call string) error {
					if call == "extend" {
						return failing(ctx)
					}
					return nil
				}
				cancelled := make(chan time.Duration, 1)
				begun := time.Now()
				b := launch(t, rail, testConfig("a"), func(ctx context.Context, e Claimed) Result {
					if time.Since(begun) > time.Minute {
						return Result{Outcome: Processed} // it came back
					}
					<-ctx.Done()
					cancelled <- time.Since(begun)
					if !errors.Is(context.Cause(ctx), ErrLeaseLost) {
						t.Errorf("cause %v", context.Cause(ctx))
					}
					rail.mu.Lock()
					defer rail.mu.Unlock()
					if !row.due.After(time.Now()) {
						t.Error("the lease had ended before the handler was told")
					}
					return Result{Outcome: Retry}
				})
				if after := <-cancelled; after < 3*time.Minute || after > 5*time.Minute-10*time.Second {
					t.Errorf("cancelled after %v of 5m", after)
				}
				synctest.Wait()
				if rail.called("release") != 1 || rail.called("markFailed") != 0 || b.log.lines("leases could not be kept") != 1 {
					t.Errorf("%d released, %d failed\n%s", rail.called("release"), rail.called("markFailed"), b.log)
				}
				b.stop()
				if row.status != "processed" || row.attempts != 1 {
					t.Errorf("%s at attempt %d, want the first one not to count", row.status, row.attempts)
				}
			})
		})
	}
}

// A lease that another worker has got by now ends the handler at the next look, and its outcome is refused.
func TestLeaseLostToAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		row := rail.add("a", 1)
		outcomes := make(chan string, 10)
		cfg := testConfig("a")
		cfg.Settled = func(_ Claimed, outcome string) { outcomes <- outcome }
		var cause error
		b := launch(t, rail, cfg, func(ctx context.Context, _ Claimed) Result {
			rail.mu.Lock()
			row.Token = uuid.NewString()
			rail.mu.Unlock()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return Result{Outcome: Processed}
		})
		if got := <-outcomes; got != outcomeLost || !errors.Is(cause, ErrLeaseLost) {
			t.Errorf("outcome %s, cause %v", got, cause)
		}
		synctest.Wait()
		if row.status != "processing" || b.log.lines("lost to others") != 1 {
			t.Errorf("the other's event is %s\n%s", row.status, b.log)
		}
		b.stop()
	})
}

// While the database is away, outcomes wait and their leases with them; nothing blocks for good, and the log stays short.
func TestOutageHoldsOutcomesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 35 {
			rail.add("a", n)
		}
		var away atomic.Bool
		rail.before = func(_ context.Context, call string) error {
			if away.Load() {
				return errors.New("connection refused")
			}
			return nil
		}
		var handled atomic.Int32
		b := launch(t, rail, testConfig("a"), func(context.Context, Claimed) Result {
			elapse(time.Second)
			if handled.Add(1) == 5 {
				away.Store(true)
			}
			return Result{Outcome: Processed}
		})
		elapse(time.Hour)
		if n := handled.Load(); n > 30 {
			t.Errorf("%d handled while nothing could be acknowledged", n)
		}
		if n := b.log.lines("WARN"); n > 6*61 {
			t.Errorf("%d warnings in an hour", n)
		}
		away.Store(false)
		elapse(time.Minute)
		if rail.count("processed") != 35 {
			t.Errorf("%d processed after the outage", rail.count("processed"))
		}
		b.stop()
	})
}

// The lease was lost, and this very worker claims the event anew, before it has noticed: the first handler is told at once,
// and what it says then counts for nothing.
func TestClaimedAnewByTheSameWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		row := rail.add("a", 1)
		causes := make(chan error, 1)
		var handled atomic.Int32
		b := launch(t, rail, testConfig("a"), func(ctx context.Context, e Claimed) Result {
			if handled.Add(1) > 1 {
				elapse(time.Minute)
				return Result{Outcome: Processed}
			}
			// As an operator may do it by hand.
			rail.mu.Lock()
			row.status, row.due = "pending", time.Now()
			rail.mu.Unlock()
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return Result{Outcome: Processed}
		})
		begun := time.Now()
		if cause := <-causes; !errors.Is(cause, ErrLeaseLost) || time.Since(begun) > 2*time.Second {
			t.Errorf("cause %v after %v", cause, time.Since(begun))
		}
		elapse(2 * time.Minute)
		if row.status != "processed" || handled.Load() != 2 || b.log.lines("lease was lost") != 1 {
			t.Errorf("%s, handled %d times\n%s", row.status, handled.Load(), b.log)
		}
		b.stop()
	})
}

// A handler that has returned keeps its lease until its outcome is stored: else the event would run twice.
func TestUnstoredOutcomeKeepsItsLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		row := rail.add("a", 1)
		begun := time.Now()
		rail.before = func(_ context.Context, call string) error {
			if call == "markProcessed" && time.Since(begun) < 20*time.Minute {
				return errors.New("lock timeout")
			}
			return nil
		}
		var handled atomic.Int32
		b := launch(t, rail, testConfig("a"), func(context.Context, Claimed) Result {
			handled.Add(1)
			return Result{Outcome: Processed}
		})
		elapse(30 * time.Minute)
		if row.status != "processed" || handled.Load() != 1 || row.attempts != 1 {
			t.Errorf("%s after %d attempts, handled %d times", row.status, row.attempts, handled.Load())
		}
		b.stop()
	})
}

// This worker was cut off and taken for dead: its handlers are told.
func TestTakenForDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		rail.add("a", 1)
		causes := make(chan error, 1)
		b := launch(t, rail, testConfig("a"), func(ctx context.Context, _ Claimed) Result {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return Result{Outcome: Retry}
		})
		elapse(time.Minute)
		rail.mu.Lock()
		rail.alive = false
		rail.mu.Unlock()
		if cause := <-causes; !errors.Is(cause, ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
		b.stop()
		if rail.called("disappear") != 1 {
			t.Error("the worker did not take itself off the list")
		}
	})
}

// This worker gets no heartbeat through, from its first one on, so others may take it for dead: its handlers are told before
// they do. One that is on no list, because no session stands for it, goes on.
func TestUnheardHandlersAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		listed bool
		cutOff time.Duration
		told   bool
	}{
		"from the start":    {true, 0, true},
		"after a minute":    {true, time.Minute, true},
		"without a session": {false, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rail, begun := newFakeRail(), time.Now()
				rail.alive = c.listed
				rail.before = func(_ context.Context, call string) error {
					if call == "heartbeat" && time.Since(begun) >= c.cutOff {
						return &pgconn.PgError{Code: "08006"}
					}
					return nil
				}
				rail.add("a", 1)
				var told time.Duration
				b := launch(t, rail, testConfig("a"), func(ctx context.Context, _ Claimed) Result {
					select {
					case <-ctx.Done():
						told = time.Since(begun)
					case <-time.After(2 * time.Minute):
					}
					return Result{Outcome: Processed}
				})
				elapse(3 * time.Minute)
				b.stop()
				if c.told != (told > 0) || told > c.cutOff+silence+heartbeatInterval {
					t.Errorf("told after %v", told)
				}
			})
		})
	}
}

// A suspect runs with nothing else in flight, and the others go on when it is done.
func TestSuspectRunsAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 25 {
			rail.add("a", n)
		}
		suspect := rail.put("a", 99, func(row *fakeRow) { row.suspect = true })
		var running, others atomic.Int32
		b := launch(t, rail, testConfig("a"), func(_ context.Context, e Claimed) Result {
			running.Add(1)
			defer running.Add(-1)
			elapse(10 * time.Second)
			if n := running.Load(); e.ID == suspect.ID {
				others.Store(n - 1)
			}
			return Result{Outcome: Processed}
		})
		elapse(time.Minute)
		if rail.count("processed") != 26 || others.Load() != 0 {
			t.Errorf("%d of 26 processed, %d beside the suspect", rail.count("processed"), others.Load())
		}
		b.stop()
	})
}

// Long handlers make no room for a suspect: the slots must not lie idle for its sake.
func TestSuspectDoesNotStarveTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 1000 {
			rail.add("a", n)
		}
		rail.put("a", 1999, func(row *fakeRow) { row.suspect = true })
		var busy atomic.Int64
		var n atomic.Int64
		b := launch(t, rail, testConfig("a"), func(ctx context.Context, _ Claimed) Result {
			begun := time.Now()
			select {
			case <-time.After(time.Minute + time.Duration(n.Add(1)*7%60)*time.Second): // never all at once
			case <-ctx.Done():
			}
			busy.Add(int64(time.Since(begun)))
			return Result{Outcome: Processed}
		})
		elapse(time.Hour)
		b.stop()
		if share := float64(busy.Load()) / float64(10*time.Hour); share < 0.93 {
			t.Errorf("the slots were busy for %.0f %% of an hour", 100*share)
		}
	})
}
