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

// Drain handles what is due, one event after another on the calling goroutine, until nothing is, and tells of each. It is the
// loop without its services: no lease is extended, no type pauses, and nobody else's events are looked after.
func Drain(ctx context.Context, config *pgxpool.Config, cfg Config, handle Handle, tell func(Delivery)) error {
	pool, err := openPool(ctx, config, &link{})
	if err != nil {
		return err
	}
	defer closePool(pool)
	rail := observe(newStore(pool, cfg.Policy), cfg.Observer)
	for {
		claimed, err := next(ctx, rail, cfg)
		if err != nil || len(claimed) == 0 {
			return err
		}
		one, err := deliver(ctx, rail, claimed[0], handle)
		if err != nil {
			return err
		}
		if cfg.Settled != nil {
			cfg.Settled(one.Claimed, one.Outcome)
		}
		tell(one)
	}
}

// How long, and with what pauses, an event that seems free to go is tried for.
const (
	drainPatience = 5 * time.Second
	drainPause    = 10 * time.Millisecond
)

// next claims one event, or none when nothing is left. A claim that comes back with nothing may have been busy filing what
// is blocked: then the next one gets further. Or somebody else holds what is free: that ends soon, or is not waited for.
func next(ctx context.Context, rail rail, cfg Config) ([]Claimed, error) {
	pauses := &idle{longest: drainPause}
	for begun := time.Now(); ; {
		claimed, err := claimOne(ctx, rail, cfg)
		if err != nil || len(claimed) > 0 {
			return claimed, err
		}
		ready, err := rail.anyReady(ctx, cfg.Types)
		if err != nil || !ready || time.Since(begun) > drainPatience {
			return nil, err
		}
		within(pauses.next(ready), ctx.Done(), nil)
	}
}

// claimOne also asks for suspects, which are handed out on request only: here everything runs alone.
func claimOne(ctx context.Context, rail rail, cfg Config) (claimed []Claimed, err error) {
	for _, suspects := range []bool{false, true} {
		claimed, err = rail.claim(ctx, ask{types: cfg.Types, limit: 1, suspects: suspects}, cfg.Known, cfg.Lease)
		if err != nil || len(claimed) > 0 {
			return claimed, err
		}
	}
	return nil, nil
}

// deliver runs a handler and stores its outcome, for which the end of ctx leaves a little time.
func deliver(ctx context.Context, rail rail, event Claimed, handle Handle) (Delivery, error) {
	var result Result
	// On a goroutine of its own, as a handler may leave it.
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		guarded(func() Result { return handle(ctx, event) }, func(r Result) { result = r })
	}()
	<-returned
	if ctx.Err() != nil {
		result = afterCancel(result, ErrStopping)
	}
	result.Error = cleanError(result.Error)
	call, cancel := outliving(ctx, callTimeout)
	defer cancel()
	outcome, err := record(call, rail, verdict{event, result})
	return Delivery{event, outcome, result.Error}, err
}

// record stores one outcome.
func record(ctx context.Context, rail rail, v verdict) (string, error) {
	one := []verdict{v}
	var outcomes []string
	var err error
	switch v.result.Outcome {
	case Settled, Lost:
	case Processed:
		outcomes, err = rail.markProcessed(ctx, one)
	case Release:
		err = rail.release(ctx, one, v.result.Delay)
	default:
		outcomes, err = rail.markFailed(ctx, one)
	}
	return outcomeOf(outcomes, 0, v), err
}
