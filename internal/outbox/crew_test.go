package outbox

import (
	"runtime"
	"testing"
)

// A member that got free takes the next job; one whose job ended its goroutine is replaced.
func TestCrew(t *testing.T) {
	c := newCrew()
	defer c.dismiss()
	ran := make(chan int)
	for i := range 100 {
		c.run(func() { ran <- i })
	}
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
