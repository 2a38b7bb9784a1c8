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
)

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
