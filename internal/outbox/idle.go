package outbox

import (
	"context"
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

// readyPatience is after how long what is free to go and cannot be had is taken for somebody else's.
const readyPatience = 30 * time.Second

// lookForReady tells an idle rail from one where a claim came back with nothing because it was busy filing what is blocked.
func (c *claimer) lookForReady(ctx context.Context, types []string) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ready, err := c.rail.anyReady(call, types)
	if !ready {
		c.fruitless = time.Time{}
	} else if c.fruitless.IsZero() {
		c.fruitless = time.Now()
	}
	c.ready = ready && time.Since(c.fruitless) < readyPatience
	return err
}

// rest waits for work. Where it can be woken it asks producers to do so before a long pause, and looks once more after
// asking: what was committed in between has sent no notification. What began before and commits later has sent none
// either, which is why the pauses grow no faster than the time that has passed.
func (c *claimer) rest(ctx context.Context, pauses *idle) {
	pause := pauses.next(c.ready)
	if !c.ready && pauses.deep() && c.alarm.heard.Load() {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		asked, err := c.rail.fallAsleep(call)
		cancel()
		if asked {
			return
		}
		c.waking.note(c.log, err, "outbox: producers cannot be asked to wake the worker, polling alone finds new events")
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-c.landed:
	case <-c.alarm.rung:
		pauses.reset()
	}
}
