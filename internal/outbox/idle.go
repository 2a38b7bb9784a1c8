package outbox

import (
	"math/rand/v2"
	"time"
)

// First and deep pauses of a claim loop that finds nothing.
const (
	firstPause = time.Millisecond
	// deepPause is where looking again and again gives way to being woken.
	deepPause = 50 * time.Millisecond
)

// idle paces the looks at an empty queue: each pause is twice the last, up to a bound.
type idle struct {
	longest time.Duration
	pause   time.Duration
}

func (i *idle) reset() { i.pause = 0 }

// next returns the pause before the next look: between half of it and the whole, so that many workers do not look in step.
// While something is free to go the pauses stay short of where one sleeps: the next look files more of what stands in
// front, or finds that others have let go of it.
func (i *idle) next(ready bool) time.Duration {
	i.pause = min(max(2*i.pause, firstPause), i.longest)
	if ready {
		i.pause = min(i.pause, deepPause/2)
	}
	return i.pause/2 + rand.N(i.pause/2+1)
}

// deep reports whether the queue has been empty for a while.
func (i *idle) deep() bool { return i.pause >= min(deepPause, i.longest) }
