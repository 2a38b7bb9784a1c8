package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Delivery is one event and what became of it, in the settler's words.
type Delivery struct {
	Claimed
	Outcome, Error string
}

// How long, and with what pauses, an event that seems free to go is tried for.
const (
	drainPatience = 5 * time.Second
	drainPause    = 10 * time.Millisecond
)

// Drain handles what is due, one event after another, until nothing is, and tells of each. It is the loop without its
// services: no lease is extended, no type pauses, and nobody else's events are looked after.
func Drain(ctx context.Context, config *pgxpool.Config, cfg Config, handle Handle, tell func(Delivery)) error {
	pool, err := openPool(ctx, config, &link{})
	if err != nil {
		return err
	}
	defer closePool(pool)
	return drain(ctx, observe(newStore(pool, cfg.Policy), cfg.Observer), cfg, handle, tell)
}

// drain is Drain on an open rail: a claim loop with a single slot, that delivers where the other starts handlers.
func drain(ctx context.Context, rail rail, cfg Config, handle Handle, tell func(Delivery)) error {
	d := &drainer{rail: rail, handle: handle, tell: tell, settled: cfg.Settled}
	c := &claimer{
		cfg: cfg, rail: rail, gate: newGate(0), flights: newFlights(), breakers: newBreakers(cfg.Pause, cfg.Logger), log: cfg.Logger,
		start:    func(event Claimed, _ time.Time) { d.deliver(ctx, event) },
		giveBack: func(event Claimed) { d.record(ctx, event, Result{Outcome: Release}) },
	}
	defer c.lastLook(ctx)
	pauses := &idle{longest: drainPause}
	for since := time.Now(); ctx.Err() == nil; {
		claimed, err := c.roundAlone(ctx)
		switch {
		case err != nil:
			return err
		case d.err != nil:
			return d.err
		case claimed > 0:
			since = time.Now()
			pauses.reset()
		case !c.ready, time.Since(since) > drainPatience:
			// Nothing is free to go, or somebody else holds it for long.
			return nil
		default:
			within(pauses.next(c.ready), ctx.Done(), nil)
		}
	}
	return ctx.Err()
}

// roundAlone also asks for suspects, which are handed out on request only: in a drain everything runs alone.
func (c *claimer) roundAlone(ctx context.Context) (claimed int, err error) {
	claimed, err = c.round(ctx, 1)
	if claimed > 0 || err != nil {
		return claimed, err
	}
	return c.claim(ctx, ask{types: c.cfg.Types, limit: 1, suspects: true})
}

// drainer takes an event through its handler and back to the database.
type drainer struct {
	rail    rail
	handle  Handle
	tell    func(Delivery)
	settled func(Claimed, string)
	// err ends the drain.
	err error
}

// deliver runs the handler, on a goroutine of its own, as it may leave it.
func (d *drainer) deliver(ctx context.Context, event Claimed) {
	var result Result
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		guarded(func() Result { return d.handle(ctx, event) }, func(r Result) { result = r })
	}()
	<-returned
	if ctx.Err() != nil {
		result = afterCancel(result, ErrStopping)
	}
	result.Error = cleanError(result.Error)
	if outcome := d.record(ctx, event, result); d.err == nil {
		d.tell(Delivery{event, outcome, result.Error})
	}
}

// record stores an outcome, for which the end of ctx leaves a little time.
func (d *drainer) record(ctx context.Context, event Claimed, result Result) (outcome string) {
	call, cancel := outliving(ctx, callTimeout)
	defer cancel()
	v := verdict{event, result}
	outcomes, err := v.store(call, d.rail)
	if d.err = err; err != nil {
		return ""
	}
	outcome = outcomeOf(outcomes, 0, v)
	if d.settled != nil {
		d.settled(event, outcome)
	}
	return outcome
}

// store stores a single verdict.
func (v verdict) store(ctx context.Context, rail rail) ([]string, error) {
	switch one := []verdict{v}; v.result.Outcome {
	case Settled, Lost:
		return nil, nil
	case Processed:
		return rail.markProcessed(ctx, one)
	case Release:
		return nil, rail.release(ctx, one, v.result.Delay)
	default:
		return rail.markFailed(ctx, one)
	}
}
