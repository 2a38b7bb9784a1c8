package outbox

import (
	"context"
	"errors"
	"time"
)

// start has the crew run the handler of a claimed event; the claim has taken the slot for it.
func (l *Loop) start(event Claimed, leaseEnds time.Time) {
	ctx, cancel := context.WithCancelCause(l.base)
	l.flights.add(&flight{event: event, cancel: cancel, leaseEnds: leaseEnds})
	l.handlers.Add(1)
	l.crew.run(func() {
		defer l.handlers.Done()
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
	if rest := l.breakers.rest(event.EventType); rest > 0 {
		return Result{Outcome: Release, Delay: rest.Truncate(time.Second) + time.Second}
	}
	return l.handle(ctx, event)
}

// finish passes the result on and frees the slot.
func (l *Loop) finish(event Claimed, result Result, cause error) {
	result = afterCancel(result, cause)
	result.Error = cleanError(result.Error)
	if delay := l.breakers.ended(event, result.tells()); delay > 0 {
		result.Delay = delay
	}
	l.flights.returned(event)
	l.settler.submit(verdict{event, result})
	l.gate.give(1)
}

// afterCancel gives an event back with its attempt when its handler failed after we had told it to end: the failure
// is ours, not the handler's.
func afterCancel(result Result, cause error) Result {
	interrupted := errors.Is(cause, ErrStopping) || errors.Is(cause, ErrLeaseLost)
	switch result.Outcome {
	case Retry, Discard, Snooze:
		if interrupted {
			return Result{Outcome: Release}
		}
	}
	return result
}

// giveBack returns an event that was claimed while the worker was told to stop; its slot goes back too.
func (l *Loop) giveBack(event Claimed) {
	l.flights.add(&flight{event: event, leaseEnds: time.Now().Add(l.cfg.Lease), returned: true})
	l.breakers.ended(event, unknown)
	l.settler.submit(verdict{event, Result{Outcome: Release}})
	l.gate.give(1)
}
