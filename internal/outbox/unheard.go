package outbox

import (
	"context"
	"time"
)

// unheard remembers claims that may have committed without their reply arriving. What they took is looked for at once,
// and again when the last of them cannot be under way on the server any more.
type unheard struct {
	soon  bool
	later time.Time
}

func (u *unheard) note() {
	u.soon, u.later = true, time.Now().Add(statementTimeout+callTimeout)
}

func (u *unheard) due() bool {
	return u.soon || !u.later.IsZero() && time.Now().After(u.later)
}

func (u *unheard) looked() {
	if !u.soon {
		u.later = time.Time{}
	}
	u.soon = false
}

// recover gives back what an unheard claim may have taken, so that it does not wait for its lease to end.
func (c *claimer) recover(ctx context.Context) error {
	if !c.unheard.due() {
		return nil
	}
	call, cancel := outliving(ctx, callTimeout)
	defer cancel()
	n, err := c.rail.recover(call, c.cfg.Types, c.flights.ids())
	if err != nil {
		return err
	}
	c.unheard.looked()
	if n > 0 {
		c.log.Info("outbox: the reply of a claim was lost, its events have been given back", "events", n)
	}
	return nil
}

// lastLook is for a claim whose reply was lost while stopping: nobody would look for it later.
func (c *claimer) lastLook(ctx context.Context) {
	if !c.unheard.soon {
		return
	}
	if err := c.recover(ctx); err != nil {
		c.log.Warn("outbox: what a claim without a reply may have taken comes back when its lease ends", "error", err)
	}
}
