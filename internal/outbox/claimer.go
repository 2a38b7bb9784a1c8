package outbox

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// claimTimeout bounds one claim; stopping does not cut it short, as its reply would be lost.
const claimTimeout = 30 * time.Second

// claimer turns free slots into claimed events.
type claimer struct {
	cfg      Config
	store    *store
	gate     *gate
	flights  *flights
	breakers *breakers
	log      *slog.Logger
	// start runs the handler of an event; giveBack returns an event that will not be started.
	start    func(event Claimed, leaseEnds time.Time)
	giveBack func(event Claimed)
	// woken and landed end a pause early: an insert was notified, an event was settled.
	woken, landed <-chan struct{}
	hears         func() bool
	// suspects is set while some event has to run alone.
	suspects *atomic.Bool
	// unheard is set when a claim may have committed without its reply arriving.
	unheard bool
}

// run claims until ctx ends, or until an error that no repetition can cure.
func (c *claimer) run(ctx context.Context) error {
	pauses := &idle{longest: c.cfg.PollInterval}
	trouble := backoff.NewExponentialBackOff()
	trouble.InitialInterval, trouble.MaxInterval = 50*time.Millisecond, 10*time.Second
	for {
		if c.suspects.Load() {
			c.solo(ctx)
		}
		slots := c.gate.take(ctx, maxBatch)
		if slots == 0 {
			return nil
		}
		claimed, err := c.round(ctx, slots)
		switch {
		case err != nil && classify(err) == fatal:
			return err
		case err != nil:
			wait := trouble.NextBackOff()
			c.log.Warn("outbox: claim failed, will be repeated", "in", wait, "error", err)
			c.sleep(ctx, wait, nil)
		case claimed > 0:
			trouble.Reset()
			pauses.reset()
		default:
			trouble.Reset()
			c.rest(ctx, pauses)
		}
	}
}

// round spends up to slots slots on one claim of the healthy types, and small ones of the types on probation.
func (c *claimer) round(ctx context.Context, slots int) (claimed int, err error) {
	defer func() { c.gate.give(slots - claimed) }()
	if err := c.recover(ctx); err != nil {
		return 0, err
	}
	for _, ask := range c.breakers.asks(c.cfg.Types, slots, time.Now()) {
		n, err := c.claim(ctx, ask)
		claimed += n
		if err != nil {
			return claimed, err
		}
	}
	return claimed, nil
}

func (c *claimer) claim(ctx context.Context, ask ask) (int, error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	leaseEnds := time.Now().Add(c.cfg.Lease)
	events, err := c.store.claim(call, ask.types, c.cfg.Known, ask.limit, c.cfg.Lease, ask.suspects)
	if err != nil {
		c.unheard = c.unheard || ambiguous(err)
		return 0, err
	}
	if ask.probe {
		c.breakers.took(ask.types[0], len(events))
	}
	for _, event := range events {
		if ctx.Err() != nil {
			c.giveBack(event)
			continue
		}
		c.start(event, leaseEnds)
	}
	return len(events), nil
}

// recover gives back what an unheard claim may have taken, so that it does not wait for its lease to end.
func (c *claimer) recover(ctx context.Context) error {
	if !c.unheard {
		return nil
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	n, err := c.store.recover(call, c.cfg.Types, c.flights.ids())
	if err != nil {
		return err
	}
	c.unheard = false
	c.log.Info("outbox: looked for events of a claim whose reply was lost", "given_back", n)
	return nil
}

// rest waits for work. Where it can be woken it asks producers to do so before a long pause, and looks once more after
// asking: what was committed in between has sent no notification.
func (c *claimer) rest(ctx context.Context, pauses *idle) {
	pause := pauses.next()
	if pauses.deep() && c.hears() {
		call, cancel := context.WithTimeout(ctx, claimTimeout)
		asked, err := c.store.fallAsleep(call)
		cancel()
		if err != nil || asked {
			return
		}
	}
	if c.sleep(ctx, pause, c.woken) && ctx.Err() == nil {
		pauses.reset()
		call, cancel := context.WithTimeout(ctx, claimTimeout)
		defer cancel()
		// Failing to say so only costs producers a few notifications.
		_ = c.store.stayAwake(call)
	}
}

// sleep waits for the pause, for the end of ctx, for a settled event or for woken, and reports whether it was woken.
func (c *claimer) sleep(ctx context.Context, pause time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-c.landed:
	case <-woken:
		return true
	}
	return false
}
