package outbox

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// A member that got free takes the next job; one whose job ended its goroutine is replaced.
func TestCrew(t *testing.T) {
	c := newCrew()
	defer c.dismiss()
	ran := make(chan int)
	for i := range 100 {
		c.run(func() { ran <- i })
	}
	// All of them wait for each other: only as many members as there are jobs get them done.
	seen := map[int]bool{}
	for range 100 {
		seen[<-ran] = true
	}
	c.run(func() { defer func() { ran <- -1 }(); runtime.Goexit() })
	<-ran
	c.run(func() { ran <- 100 })
	seen[<-ran] = true
	if len(seen) != 101 {
		t.Errorf("%d jobs ran, want 101", len(seen))
	}
}

// Case G4 in the loop: whatever ends a handler, its one slot comes back.
func TestG4_SlotComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 5 {
			rail.add("a", n)
		}
		cfg := testConfig("a")
		cfg.Concurrency = 1
		b := launch(t, rail, cfg, func(_ context.Context, e Claimed) Result {
			if e.Attempt == 1 {
				ways[e.AggregateID[15]]()
			}
			return Result{Outcome: Processed}
		})
		elapse(time.Minute)
		for _, row := range rail.rows {
			if row.status != "processed" || row.attempts != 2 || row.err == "" {
				t.Errorf("%s after %d attempts: %s", row.status, row.attempts, row.err)
			}
		}
		b.stop()
	})
}

// Jobs that return at once are done by few members.
func TestCrewIsSmall(t *testing.T) {
	c := newCrew()
	defer c.dismiss()
	var jobs sync.WaitGroup
	c.mu.Lock() // so that no member comes before all jobs are there
	for range 10_000 {
		jobs.Add(1)
		c.jobs = append(c.jobs, jobs.Done)
	}
	c.call()
	c.mu.Unlock()
	jobs.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.free > 1000 {
		t.Errorf("%d members for 10000 jobs that took no time", c.free)
	}
}
