package outbox

import (
	"context"
	"time"
)

const (
	// soloPatience is how long running handlers get to make room for an event that has to run alone.
	soloPatience = 30 * time.Second
	// soloRest is how long the others have their way when they made none: slots must not lie idle most of the time.
	soloRest = 5 * time.Minute
)

// solo waits until no handler runs, then runs one suspect with nothing else in flight: if this process dies now, it is
// known of what.
func (c *claimer) solo(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, soloPatience)
	defer cancel()
	if !c.gate.takeAll(patience, c.cfg.Concurrency) {
		c.soloAfter = time.Now().Add(soloRest)
		return nil
	}
	n, err := c.claim(ctx, ask{types: c.cfg.Types, limit: 1, suspects: true})
	if n == 0 {
		if err == nil {
			c.suspects.Store(false)
		}
		c.gate.give(c.cfg.Concurrency)
		return err
	}
	// The handler frees its own slot when it has returned.
	if c.gate.take(ctx, 1) == 1 {
		c.gate.give(1)
	}
	c.gate.give(c.cfg.Concurrency - 1)
	return nil
}
