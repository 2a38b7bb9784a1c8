package outbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
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

// Case L6: what a claim took whose reply was lost comes back at once, and once more when the claim was still under way.
func TestL6_LostReplyOfAClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 3 {
			rail.add("a", n)
		}
		lost := errors.New("connection reset")
		rail.after = func(_ context.Context, call string) error {
			if call == "claim" && rail.called("claim") == 1 {
				return lost
			}
			return nil
		}
		cfg := testConfig("a")
		cfg.Lease = time.Hour
		b := launch(t, rail, cfg, processed)
		elapse(time.Second)
		if rail.count("processed") != 3 || rail.called("recover") != 1 {
			t.Errorf("%d processed, %d looks", rail.count("processed"), rail.called("recover"))
		}
		// A claim that the server got to only now, from a session that is gone.
		rail.put("a", 9, func(row *fakeRow) { row.status, row.attempts, row.due = "processing", 1, time.Now().Add(time.Hour) })
		elapse(2 * time.Minute)
		if rail.count("processed") != 4 || rail.called("recover") != 2 {
			t.Errorf("%d processed, %d looks", rail.count("processed"), rail.called("recover"))
		}
		for _, row := range rail.rows {
			if row.attempts != 1 {
				t.Errorf("%d attempts spent, want 1", row.attempts)
			}
		}
		elapse(10 * time.Minute)
		if n := rail.called("recover"); n != 2 {
			t.Errorf("%d looks long after, want no more", n)
		}
		b.stop()
	})
}

// The look after a lost reply leaves alone what this worker holds and knows of, running or still to be stored.
func TestL6_RecoverSparesWhatIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		rail.add("a", 1)
		rail.add("a", 2)
		stuck := make(chan struct{})
		rail.before = func(_ context.Context, call string) error {
			if call == "markProcessed" {
				<-stuck
			}
			return nil
		}
		rail.after = func(_ context.Context, call string) error {
			if call == "claim" && rail.called("claim") == 2 {
				return errors.New("reset")
			}
			return nil
		}
		var handled atomic.Int32
		release := make(chan struct{})
		b := launch(t, rail, testConfig("a"), func(_ context.Context, e Claimed) Result {
			if handled.Add(1) == 1 {
				<-release
			}
			return Result{Outcome: Processed}
		})
		elapse(5 * time.Second)
		if handled.Load() != 2 || rail.called("recover") != 1 || rail.count("processing") != 2 {
			t.Errorf("%d handled, %d looks, %d held", handled.Load(), rail.called("recover"), rail.count("processing"))
		}
		close(stuck)
		close(release)
		synctest.Wait()
		if rail.count("processed") != 2 || handled.Load() != 2 {
			t.Errorf("%d processed, %d handled", rail.count("processed"), handled.Load())
		}
		b.stop()
	})
}

// A claim whose reply is lost just when the worker stops is looked for before it goes.
func TestL6_LostReplyWhileStopping(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		rail.add("a", 1)
		asked := make(chan struct{})
		rail.after = func(ctx context.Context, call string) error {
			if call == "claim" {
				close(asked)
				<-ctx.Done() // a network that swallows the reply
				return ctx.Err()
			}
			return nil
		}
		b := launch(t, rail, testConfig("a"), processed)
		<-asked
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took > 2*lastCall || rail.count("pending") != 1 || rail.rows[0].attempts != 0 {
			t.Errorf("stopped after %v, %d given back, %d attempts spent", took, rail.count("pending"), rail.rows[0].attempts)
		}
	})
}

// A claim that comes back after the worker was told to stop: nothing of it is started, all of it goes back.
func TestStopDuringAClaimGivesItBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 5 {
			rail.add("a", n)
		}
		asked, answer := make(chan struct{}), make(chan struct{})
		rail.after = func(_ context.Context, call string) error {
			if call == "claim" {
				close(asked)
				<-answer
			}
			return nil
		}
		b := launch(t, rail, testConfig("a"), func(context.Context, Claimed) Result {
			t.Error("started after stop")
			return Result{Outcome: Processed}
		})
		<-asked
		go b.loop.Stop(context.Background())
		synctest.Wait()
		close(answer)
		b.stop()
		if n := rail.count("pending"); n != 5 {
			t.Errorf("%d of 5 given back", n)
		}
		for _, row := range rail.rows {
			if row.attempts != 0 {
				t.Error("an attempt was spent")
			}
		}
	})
}

// Case G1: the worker is told to stop just before the handler returns; the acknowledgement still lands.
func TestG1_AckLandsAfterStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		rail.add("a", 1)
		started := make(chan struct{})
		b := launch(t, rail, testConfig("a"), func(ctx context.Context, _ Claimed) Result {
			close(started)
			elapse(time.Millisecond)
			if ctx.Err() != nil {
				t.Error("the handler was cancelled without need")
			}
			return Result{Outcome: Processed}
		})
		<-started
		b.end() // as SIGTERM does with signal.NotifyContext
		<-b.done
		if b.left != nil || b.err != nil || rail.count("processed") != 1 {
			t.Errorf("%v, %v, %d processed", b.left, b.err, rail.count("processed"))
		}
	})
}

// Stopping in stages: handlers finish; at StopTimeout they are cancelled with the cause; what fails then goes back with its
// attempt.
func TestStopCancelsAtItsTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 4 {
			rail.add("a", n)
		}
		var causes sync.Map
		b := launch(t, rail, testConfig("a"), func(ctx context.Context, e Claimed) Result {
			<-ctx.Done()
			causes.Store(e.ID, context.Cause(ctx))
			return Result{Outcome: []Outcome{Retry, Discard, Snooze, Processed}[e.AggregateID[15]]}
		})
		synctest.Wait()
		begun := time.Now()
		b.stop()
		if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("took %v, want StopTimeout", took)
		}
		for _, row := range rail.rows {
			cause, _ := causes.Load(row.ID)
			want := map[bool]string{true: "processed", false: "pending"}[row.AggregateID[15] == 3]
			if err, _ := cause.(error); !errors.Is(err, ErrStopping) || row.status != want || row.status == "pending" && row.attempts != 0 {
				t.Errorf("%v: cause %v, %s with %d attempts; want %s", row.AggregateID[15], cause, row.status, row.attempts, want)
			}
		}
	})
}

// Case G2: Stop's own deadline comes first; the error lists what is left.
func TestG2_StopListsWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		stubborn, unstored := rail.add("a", 1), rail.add("a", 2)
		rail.before = func(ctx context.Context, call string) error {
			if call == "markProcessed" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		release, ended := make(chan struct{}), make(chan struct{})
		b := launch(t, rail, testConfig("a"), func(_ context.Context, e Claimed) Result {
			if e.ID == stubborn.ID {
				<-release
				defer close(ended)
			}
			return Result{Outcome: Processed}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		begun := time.Now()
		b.loop.Stop(ctx)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("Stop took %v", took)
		}
		<-b.done
		if b.left == nil || !slices.Equal(b.left.Running, []uuid.UUID{stubborn.ID}) || !slices.Equal(b.left.Unsettled, []uuid.UUID{unstored.ID}) || b.err != nil {
			t.Errorf("left %+v, %v", b.left, b.err)
		}
		// It may return at any time later, and finds nobody to talk to.
		close(release)
		<-ended
		synctest.Wait()
	})
}

// A database that no longer answers must not keep the worker from stopping.
func TestG2_StopWhileTheDatabaseIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		row := rail.add("a", 1)
		var silent atomic.Bool
		rail.before = func(ctx context.Context, call string) error {
			if silent.Load() {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		started := make(chan struct{})
		b := launch(t, rail, testConfig("a"), func(context.Context, Claimed) Result {
			close(started)
			elapse(time.Minute)
			return Result{Outcome: Processed}
		})
		<-started
		silent.Store(true)
		elapse(10 * time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		begun := time.Now()
		b.loop.Stop(ctx)
		<-b.done
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("took %v", took)
		}
		if b.left == nil || !slices.Equal(b.left.Running, []uuid.UUID{row.ID}) {
			t.Errorf("left %+v", b.left)
		}
		elapse(time.Minute)
	})
}

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
