package outbox

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A trial whose handler hangs keeps the next one waiting for so long and no longer; it still counts when it comes back.
func TestP6_HungTrialDoesNotPauseForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 40 {
			rail.add("a", n)
		}
		back, hangs := time.Now().Add(time.Minute), make(chan struct{})
		var hung atomic.Int32
		b := launch(t, rail, testConfig("a"), func(_ context.Context, e Claimed) Result {
			switch {
			case time.Now().Before(back):
				return Result{Outcome: Snooze, Unavailable: true}
			case hung.Add(1) <= 2:
				<-hangs
			}
			return Result{Outcome: Processed}
		})
		elapse(time.Minute + maxPause)
		if n := rail.count("processed"); n != 0 || hung.Load() != 1 {
			t.Fatalf("%d processed beside %d trials that hang", n, hung.Load())
		}
		elapse(trialPatience)
		if n := rail.count("processed"); n != 0 || hung.Load() != 2 {
			t.Fatalf("%d processed beside %d trials that hang", n, hung.Load())
		}
		elapse(2 * trialPatience)
		if n := rail.count("processed"); n != 38 {
			t.Errorf("%d of 38 processed after two trials had hung for their time", n)
		}
		close(hangs)
		synctest.Wait()
		if n := rail.count("processed"); n != 40 {
			t.Errorf("%d of 40 processed", n)
		}
		b.stop()
	})
}

// One event that always runs into its deadline is put off ever longer, and pauses nobody else: whether its type is busy, or
// it is alone there.
func TestP6_OneEventAlonePausesNothing(t *testing.T) {
	for name, others := range map[string]int{"among others": 1, "alone": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rail := newFakeRail()
				poison := rail.add("a", 0)
				b := launch(t, rail, testConfig("a"), func(_ context.Context, e Claimed) Result {
					if e.ID == poison.ID {
						elapse(time.Second)
						return Result{Outcome: Snooze, Unavailable: true, Error: "deadline exceeded"}
					}
					return Result{Outcome: Processed}
				})
				for second := range 3600 {
					if others > 0 {
						rail.add("a", 1+second%100)
					}
					elapse(time.Second)
				}
				elapse(2 * time.Second)
				if n := rail.count("processed"); n != 3600*others || b.log.lines("pauses") != 0 {
					t.Errorf("%d others processed, %d pauses", n, b.log.lines("pauses"))
				}
				// 5, 10, 20 seconds and so on, and then every five minutes.
				if n := poison.Snoozes; n < 12 || n > 25 {
					t.Errorf("snoozed %d times in an hour", n)
				}
				b.stop()
			})
		})
	}
}
