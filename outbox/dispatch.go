package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/db"
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

// errNotHeld rolls a transactional handler back: its event is no longer this worker's to acknowledge.
var errNotHeld = fmt.Errorf("outbox: transaction rolled back: %w", ErrLeaseLost)

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

// transactional runs a handler and the acknowledgement of its event in one transaction.
func transactional(pool *pgxpool.Pool, handler func(context.Context, pgx.Tx, event.Envelope) error) event.Handler {
	return func(ctx context.Context, envelope event.Envelope) error {
		d := ctx.Value(deliveryKey{}).(*delivery)
		err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
			if err := handler(ctx, tx, envelope); err != nil {
				return err
			}
			held, err := db.New(tx).OutboxMarkProcessed(ctx, db.OutboxMarkProcessedParams{
				EventID: d.claimed.ID, ClaimToken: d.claimed.Token, Metadata: []byte("{}"),
			})
			if err == nil && !held {
				err = errNotHeld
			}
			return err
		})
		d.settled = err == nil
		return err
	}
}

// toResult is the one place where a handler's error becomes an outcome.
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
		result.Outcome = internal.Settled
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
