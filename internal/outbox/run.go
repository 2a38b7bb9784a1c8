package outbox

import (
	"context"
	"errors"
	"time"
)

// start runs the handler of a claimed event on a goroutine of its own; the claim has taken the slot for it.
func (l *Loop) start(event Claimed, leaseEnds time.Time) {
	ctx, cancel := context.WithCancelCause(l.base)
	l.flights.add(&flight{event: event, cancel: cancel, leaseEnds: leaseEnds})
	l.handlers.Go(func() {
		guarded(
			func() Result { return l.attempt(ctx, event) },
			func(result Result) {
				cause := context.Cause(ctx)
				cancel(nil)
				l.finish(event, result, cause)
			})
	})
}

// attempt calls the handler, unless its type has been found out of order since the claim.
func (l *Loop) attempt(ctx context.Context, event Claimed) Result {
	if rest := l.breakers.resting(event.EventType); rest > 0 {
		return Result{Outcome: Release, Delay: rest.Round(time.Second) + time.Second}
	}
	return l.handle(ctx, event)
}

// finish passes the result on and frees the slot. A failure that our own cancellation brought about is not
// the handler's: the event is given back with its attempt.
func (l *Loop) finish(event Claimed, result Result, cause error) {
	interrupted := errors.Is(cause, ErrStopping) || errors.Is(cause, ErrLeaseLost)
	switch {
	case result.Outcome == Processed, result.Outcome == Settled:
		l.breakers.report(event.EventType, false)
	case interrupted:
		result = Result{Outcome: Release}
	case result.Outcome != Release:
		if delay := l.breakers.report(event.EventType, result.Unavailable); delay > 0 {
			result.Delay = delay
		}
	}
	l.flights.returned(event)
	l.settler.submit(verdict{event, result})
	l.gate.give(1)
}

// giveBack returns an event that was claimed while the worker was told to stop; its slot goes back too.
func (l *Loop) giveBack(event Claimed) {
	l.settler.submit(verdict{event, Result{Outcome: Release}})
	l.gate.give(1)
}
