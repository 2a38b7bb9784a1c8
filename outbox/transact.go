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

var (
	// errNotHeld rolls a transactional handler back: its event is no longer this worker's to acknowledge.
	errNotHeld  = fmt.Errorf("outbox: transaction rolled back: %w", ErrLeaseLost)
	errNotYours = errors.New("outbox: the transaction given to a handler ends with it, not before: return nil to commit, an error to roll back")
	errDetached = errors.New("outbox: a middleware replaced the context of a transactional handler by one that does not descend from it")
)

// transactional runs a handler and the acknowledgement of its event in one transaction. Its isolation is the one in which
// the acknowledgement waits for others instead of failing, whatever the role's default.
func transactional(pool *pgxpool.Pool, handler func(context.Context, pgx.Tx, event.Envelope) error) event.Handler {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	return func(ctx context.Context, envelope event.Envelope) error {
		d, ok := ctx.Value(deliveryKey{}).(*delivery)
		if !ok {
			return errDetached
		}
		err := pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
			lent := &lentTx{Tx: tx}
			if err := handler(ctx, lent, envelope); err != nil {
				return err
			}
			if lent.ended {
				return errNotYours
			}
			return acknowledge(ctx, tx, d.claimed)
		})
		d.settled = d.settled || err == nil
		return err
	}
}

func acknowledge(ctx context.Context, tx pgx.Tx, claimed internal.Claimed) error {
	held, err := db.New(tx).OutboxMarkProcessed(ctx, db.OutboxMarkProcessedParams{
		EventID: claimed.ID, ClaimToken: claimed.Token, Metadata: []byte("{}"),
	})
	if err == nil && !held {
		err = errNotHeld
	}
	return err
}

// lentTx keeps a handler from ending the transaction that is to end its event too: after a commit of its own the effects
// would stand and the event come again.
type lentTx struct {
	pgx.Tx
	ended bool
}

func (t *lentTx) Commit(context.Context) error {
	t.ended = true
	return errNotYours
}

func (t *lentTx) Rollback(context.Context) error {
	t.ended = true
	return errNotYours
}
