package outbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	internal "github.com/openlup/pgrail/internal/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// delivery is what a transactional handler needs besides its envelope; middleware stands in between, so it travels in the
// context.
type delivery struct {
	claimed internal.Claimed
	settled bool
}

type deliveryKey struct{}

// dispatcher returns the function that the loop calls for every claimed event.
func dispatcher(pool *pgxpool.Pool, handlers *Handlers) internal.Handle {
	byType := make(map[string]event.Handler, len(handlers.byType))
	for eventType, r := range handlers.byType {
		handler := r.plain
		if handler == nil {
			handler = transactional(pool, r.inTx)
		}
		byType[eventType] = handlers.wrap(handler)
	}
	return func(ctx context.Context, claimed internal.Claimed) internal.Result {
		d := &delivery{claimed: claimed}
		err := byType[claimed.EventType](context.WithValue(ctx, deliveryKey{}, d), event.Envelope(claimed.Envelope))
		if d.settled && err == nil {
			return internal.Result{Outcome: internal.Settled}
		}
		return toResult(err)
	}
}

// toResult is the one place where a handler's error becomes an outcome. What the handler said on purpose goes before
// what the error looks like.
func toResult(err error) internal.Result {
	if err == nil {
		return internal.Result{Outcome: internal.Processed}
	}
	result := internal.Result{Outcome: internal.Retry, Error: err.Error(), Delay: -1}
	var discard *event.DiscardError
	var snooze *event.SnoozeError
	var retry *event.RetryError
	switch {
	case errors.Is(err, errNotHeld):
		result.Outcome = internal.Lost
	case errors.As(err, &discard):
		result.Outcome = internal.Discard
	case errors.Is(err, event.ErrUndecodable):
		result.Outcome, result.Reason = internal.Discard, "undecodable"
	case errors.As(err, &snooze):
		result.Outcome = internal.Snooze
		if snooze.Delay > 0 {
			result.Delay = snooze.Delay
		}
	case errors.As(err, &retry):
		result.Delay = max(retry.Delay, 0)
	case event.IsUnavailable(err):
		result.Outcome, result.Unavailable = internal.Snooze, true
	}
	return result
}
