package outbox

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// claimer turns free slots into claimed events.
type claimer struct {
	cfg      Config
	rail     rail
	gate     *gate
	flights  *flights
	breakers *breakers
	log      *slog.Logger
	alarm    *alarm
	// start runs the handler of an event; giveBack returns an event that will not be started.
	start    func(event Claimed, leaseEnds time.Time)
	giveBack func(event Claimed)
	// landed ends a pause early: a settled event may have made way for the next one of its aggregate.
	landed <-chan struct{}
	// suspects is set while some event has to run alone.
	suspects *atomic.Bool
	// soloAfter is when the next suspect may have its turn.
	soloAfter time.Time
	unheard   unheard
	horizon   horizon

	// full is set while claims get as much as they ask for; ready when the last got nothing, and yet something is free to go.
	full, ready bool
	// fruitless is since when that has been so.
	fruitless time.Time

	waking, failing streak
}

// run claims until ctx ends, or until an error that no repetition can cure.
func (c *claimer) run(ctx context.Context) error {
	defer c.lastLook(ctx)
	pauses := &idle{longest: c.cfg.PollInterval}
	trouble := backoff.NewExponentialBackOff()
	trouble.InitialInterval, trouble.MaxInterval = 50*time.Millisecond, 10*time.Second
	for {
		claimed, err := c.turn(ctx)
		switch {
		case err != nil && classify(err) == fatal:
			return err
		case ctx.Err() != nil:
			return nil
		case err != nil:
			c.failing.note(c.log, err, "outbox: claims fail and are repeated")
			within(trouble.NextBackOff(), ctx.Done(), nil)
			continue
		case claimed > 0:
			pauses.reset()
		default:
			c.rest(ctx, pauses)
		}
		c.failing.note(c.log, nil, "outbox: claims fail and are repeated")
		trouble.Reset()
	}
}

// turn waits for slots and claims for them; before that it sees to what has to run alone.
func (c *claimer) turn(ctx context.Context) (claimed int, err error) {
	if c.suspects.Load() && time.Now().After(c.soloAfter) {
		if err := c.solo(ctx); err != nil {
			return 0, err
		}
	}
	slots := c.gate.take(ctx, maxBatch)
	if slots == 0 {
		return 0, nil
	}
	// With a backlog behind it, a claim for a few slots costs nearly what one for many does: wait a moment for more.
	if c.full && slots < min(c.cfg.Concurrency, maxBatch)/2 {
		within(gathering, ctx.Done(), nil)
		slots += c.gate.tryTake(maxBatch - slots)
	}
	claimed, err = c.round(ctx, slots)
	c.full = claimed == slots
	return claimed, err
}

// gathering is how long a claim waits for more slots while there is a backlog.
const gathering = 2 * time.Millisecond

// round spends up to slots slots on one claim of the healthy types, and small ones of the types on trial.
func (c *claimer) round(ctx context.Context, slots int) (claimed int, err error) {
	defer func() { c.gate.give(slots - claimed) }()
	if err := c.recover(ctx); err != nil {
		return 0, err
	}
	var asked []string
	for _, ask := range c.breakers.asks(c.cfg.Types, slots) {
		n, err := c.claim(ctx, ask)
		claimed += n
		if err != nil {
			return claimed, err
		}
		asked = append(asked, ask.types...)
	}
	if claimed > 0 || len(asked) == 0 {
		c.ready, c.fruitless = false, time.Time{}
		return claimed, nil
	}
	return 0, c.lookForReady(ctx, asked)
}

func (c *claimer) claim(ctx context.Context, ask ask) (int, error) {
	// With a third of the lease at most spent on the claim no handler starts with less than it needs until the first
	// extension.
	call, cancel := outliving(ctx, min(callTimeout, c.cfg.Lease/3))
	defer cancel()
	leaseEnds := time.Now().Add(c.cfg.Lease)
	sent := time.Now()
	ask.since = c.horizon.since(ask, sent)
	events, err := c.rail.claim(call, ask, c.cfg.Known, c.cfg.Lease)
	c.horizon.note(ask, events, sent, time.Since(sent))
	if err != nil {
		if ambiguous(err) {
			c.unheard.note()
		}
		return 0, err
	}
	for _, event := range events {
		if event.Trial = ask.trial; event.Trial {
			c.breakers.tries(event)
		}
		if ctx.Err() != nil {
			c.giveBack(event)
			continue
		}
		c.start(event, leaseEnds)
	}
	return len(events), nil
}

// outliving returns a context for a call that must not be cut off at the very moment ctx ends, as its reply would be lost:
// it lasts for limit, and beyond the end of ctx only a little.
func outliving(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastCall, cancel) })
	return call, func() { stop(); cancel() }
}
