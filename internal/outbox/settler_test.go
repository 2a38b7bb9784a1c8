package outbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// An error that no repetition can cure stops the loop, wherever it comes up; others never do.
func TestD1_FatalErrorsStop(t *testing.T) {
	for _, call := range []string{"claim", "markProcessed", "markFailed", "release", "recover"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rail := newFakeRail()
				rail.add("a", 1)
				broken := &pgconn.PgError{Code: "42883", Message: "function does not exist"}
				rail.before = func(_ context.Context, now string) error {
					if now == call {
						return broken
					}
					return nil
				}
				rail.after = func(_ context.Context, now string) error {
					if call == "recover" && now == "claim" {
						return errors.New("reset")
					}
					return nil
				}
				outcome := map[string]Outcome{"markFailed": Retry, "release": Release}[call]
				b := launch(t, rail, testConfig("a"), func(context.Context, Claimed) Result {
					return Result{Outcome: max(outcome, Processed)}
				})
				<-b.done
				if !errors.Is(b.err, broken) {
					t.Errorf("ended with %v, %v", b.left, b.err)
				}
				if stored := call == "claim" || call == "recover"; stored != (b.left == nil) {
					t.Errorf("left %v", b.left)
				}
			})
		})
	}
}

// Errors that pass are waited out in claim and acknowledgement alike: nothing is lost, nothing handled twice, no attempt
// spent, and the pauses grow.
func TestD1_PassingErrorsAreRepeated(t *testing.T) {
	for _, code := range []string{"40001", "40P01", "55P03", "57014", "25006", "57P01", "57P02", "57P03", "08006", "0A000", "P0001"} {
		t.Run(code, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rail := newFakeRail()
				for n := range 3 {
					rail.add("a", n)
				}
				const times = 12
				failed := map[string]int{}
				var mu sync.Mutex
				rail.before = func(_ context.Context, call string) error {
					mu.Lock()
					defer mu.Unlock()
					passes := code != "P0001" || call == "claim"
					if (call == "claim" || call == "markProcessed" || call == "markFailed") && passes && failed[call] < times {
						failed[call]++
						return &pgconn.PgError{Code: code}
					}
					return nil
				}
				var handled atomic.Int32
				b := launch(t, rail, testConfig("a"), func(_ context.Context, e Claimed) Result {
					handled.Add(1)
					if e.AggregateID[15] == 0 && e.Attempt == 1 {
						return Result{Outcome: Retry, Delay: time.Second}
					}
					return Result{Outcome: Processed}
				})
				begun := time.Now()
				for rail.count("processed") < 3 && time.Since(begun) < 10*time.Minute {
					elapse(100 * time.Millisecond)
				}
				if rail.count("processed") != 3 || handled.Load() != 4 || rail.rows[1].attempts != 1 || rail.rows[0].attempts != 2 {
					t.Errorf("%d processed, handled %d times", rail.count("processed"), handled.Load())
				}
				if took := time.Since(begun); took > 4*time.Minute || code != "P0001" && took < 10*time.Second {
					t.Errorf("took %v", took)
				}
				b.stop()
			})
		})
	}
}

// What the database refuses for good is one event's fault: the others of the batch get their outcome, and the loop goes on.
func TestRefusedOutcomeCostsOneEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 10 {
			rail.add("a", n)
		}
		poison := rail.rows[4].ID
		refusing := &refusingRail{fakeRail: rail, poison: poison}
		outcomes := make(chan string, 100)
		cfg := testConfig("a")
		cfg.Settled = func(e Claimed, outcome string) {
			if e.ID == poison {
				outcomes <- outcome
			}
		}
		b := launchOn(t, refusing, rail, cfg, processed)
		elapse(time.Second)
		if rail.count("processed") != 9 || rail.count("processing") != 1 {
			t.Errorf("%d processed, %d in flight", rail.count("processed"), rail.count("processing"))
		}
		if got := <-outcomes; got != outcomeRefused {
			t.Errorf("outcome %q", got)
		}
		// Its lease is not extended for ever: it comes back.
		elapse(cfg.Lease + time.Minute)
		if n := rail.rows[4].attempts; n != 2 {
			t.Errorf("claimed %d times, want again after the lease", n)
		}
		b.stop()
	})
}

// refusingRail cannot store the outcome of one event.
type refusingRail struct {
	*fakeRail
	poison uuid.UUID
}

func (r *refusingRail) markProcessed(ctx context.Context, batch []verdict) ([]string, error) {
	if slices.ContainsFunc(batch, func(v verdict) bool { return v.event.ID == r.poison }) {
		return nil, &pgconn.PgError{Code: "23514"}
	}
	return r.fakeRail.markProcessed(ctx, batch)
}
