package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Case G6: pauses grow to a bound and no further, and many workers that began together do not stay in step.
func TestG6_IdlePausesGrowAndSpread(t *testing.T) {
	t.Parallel()
	const workers = 50
	at := make([]time.Duration, workers)
	var looks int
	for w := range at {
		pauses := &idle{longest: time.Second}
		last := time.Duration(0)
		for step := 0; at[w] < time.Minute; step++ {
			pause := pauses.next(false)
			whole := min(firstPause<<step, time.Second)
			if step > 20 {
				whole = time.Second
			}
			if pause < whole/2 || pause > whole {
				t.Fatalf("pause %d of %v, want %v to %v", step, pause, whole/2, whole)
			}
			if pauses.deep() != (whole >= deepPause) {
				t.Fatalf("deep is %v at %v", pauses.deep(), whole)
			}
			last, at[w], looks = pause, at[w]+pause, looks+1
		}
		pauses.reset()
		if first := pauses.next(false); first > firstPause || last < time.Second/2 {
			t.Errorf("the first pause after work is %v, the last before was %v", first, last)
		}
	}
	// A minute of an empty queue: ten short looks, and then some 80 a worker.
	if looks > workers*130 {
		t.Errorf("%d looks in a minute", looks)
	}
	// After a minute the next looks fall into ten slots of a second: none may hold much more than its tenth.
	slots := map[int]int{}
	for _, end := range at {
		slots[int((end-time.Minute)/(100*time.Millisecond))]++
	}
	for slot, n := range slots {
		if n > workers/2 {
			t.Errorf("%d of %d workers look in the same tenth of a second (%d)", n, workers, slot)
		}
	}
	for _, longest := range []time.Duration{10 * time.Millisecond, 1} {
		pauses := &idle{longest: longest}
		for range 10 {
			if pause := pauses.next(false); pause > longest {
				t.Errorf("a pause of %v, at most %v was asked for", pause, longest)
			}
		}
		if !pauses.deep() {
			t.Errorf("never deep at %v", longest)
		}
	}
}

// An idle loop looks ever less, up to its interval, asks once to be woken, and looks once more after asking.
func TestIdleLoopFallsAsleep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		cfg := testConfig("a")
		cfg.PollInterval = time.Minute
		b := launch(t, rail, cfg, processed)
		elapse(time.Second)
		if n := rail.called("fallAsleep"); n != 0 {
			t.Errorf("asked for notifications that nobody hears")
		}
		b.bell.heard.Store(true)
		nudge(b.bell.rung)
		elapse(time.Hour)
		looks, asks := rail.called("claim"), rail.called("fallAsleep")
		if looks > 60*2+30 || asks < 2 {
			t.Errorf("%d looks and %d requests to be woken in an hour", looks, asks)
		}
		row := rail.add("a", 1)
		begun := time.Now()
		nudge(b.bell.rung)
		synctest.Wait()
		if row.status != "processed" || time.Since(begun) != 0 {
			t.Errorf("woken, and the event is %s after %v", row.status, time.Since(begun))
		}
		b.stop()
	})
}

// What is committed between the last look and the request to be woken sends no notification: the loop looks again.
func TestLooksAgainAfterFallingAsleep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		var row *fakeRow
		rail.before = func(_ context.Context, call string) error {
			if call == "fallAsleep" && row == nil {
				row = rail.add("a", 1)
			}
			return nil
		}
		cfg := testConfig("a")
		cfg.PollInterval = time.Minute
		b := launch(t, rail, cfg, processed)
		b.bell.heard.Store(true)
		elapse(200 * time.Millisecond)
		if n := rail.count("processed"); n != 1 {
			t.Errorf("the event waits for the next poll")
		}
		b.stop()
	})
}

// A failing request to be woken makes polling take over, and no busy loop.
func TestFailingFallAsleepIsNoBusyLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		rail.before = func(_ context.Context, call string) error {
			if call == "fallAsleep" {
				return context.DeadlineExceeded
			}
			return nil
		}
		b := launch(t, rail, testConfig("a"), processed)
		b.bell.heard.Store(true)
		elapse(time.Minute)
		if n := rail.called("claim"); n > 200 {
			t.Errorf("%d looks in a minute", n)
		}
		if n := b.log.lines("WARN", "polling alone"); n < 1 || n > 2 {
			t.Errorf("said %d times", n)
		}
		b.stop()
	})
}

// However often it is rung, a loop with nothing to do looks once per ring and no more.
func TestG5_RingingIsNoBusyLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		b := launch(t, rail, testConfig("a"), processed)
		elapse(10 * time.Second)
		before := rail.called("claim")
		for range 100 {
			nudge(b.bell.rung)
		}
		synctest.Wait()
		if n := rail.called("claim") - before; n > 2 {
			t.Errorf("%d looks for a burst of notifications", n)
		}
		b.stop()
	})
}
