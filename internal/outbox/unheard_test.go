package outbox

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
