package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox/event"
)

// DB is what this package needs of a database: a transaction, a connection or a pool of pgx. Enqueueing belongs
// in the transaction of the change it announces.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Receipt says what became of one draft.
type Receipt struct {
	// ID of the event, or of the one that had the type and key before.
	ID uuid.UUID
	// Duplicate means that nothing was written, because the type and key exist already.
	Duplicate bool
	// SamePayload is true unless a duplicate says something else than the event that is there.
	SamePayload bool
}

// chunk is how many events one statement carries.
const chunk = 5000

// Enqueue writes events and returns a receipt per draft, in order. Events of one aggregate are handled in the order of
// the drafts, and after everything enqueued for it before; its aggregates stay locked until the transaction ends, so a
// second transaction that enqueues for one of them waits.
//
// A duplicate is a receipt, not an error, and leaves the transaction alive. An invalid draft is an error that matches
// [ErrInvalid] and names its index and field, before anything is sent. [ErrRetryTransaction] means
// that the whole transaction should run again: transactions that enqueue in several calls can lock aggregates in
// opposite order, which one call, or calls in a fixed order of aggregates, cannot.
func Enqueue(ctx context.Context, tx DB, drafts ...event.Draft) ([]Receipt, error) {
	for i, draft := range drafts {
		if err := draft.Validate(); err != nil {
			return nil, fmt.Errorf("outbox: draft %d: %w", i, err)
		}
	}
	receipts := make([]Receipt, 0, len(drafts))
	for start := 0; start < len(drafts); start += chunk {
		some, err := enqueue(ctx, db.New(tx), drafts[start:min(start+chunk, len(drafts))])
		if err != nil {
			return nil, translate("enqueue", err)
		}
		receipts = append(receipts, some...)
	}
	return receipts, nil
}

func enqueue(ctx context.Context, q *db.Queries, drafts []event.Draft) ([]Receipt, error) {
	var params db.OutboxEnqueueParams
	for _, draft := range drafts {
		metadata, err := draft.EncodeMetadata()
		if err != nil {
			return nil, err
		}
		params.EventTypes = append(params.EventTypes, draft.EventType)
		params.IdempotencyKeys = append(params.IdempotencyKeys, draft.IdempotencyKey)
		params.AggregateTypes = append(params.AggregateTypes, draft.AggregateType)
		params.AggregateIds = append(params.AggregateIds, draft.AggregateID.String())
		params.Payloads = append(params.Payloads, string(draft.Payload))
		params.Metadata = append(params.Metadata, string(metadata))
		params.DelaysSeconds = append(params.DelaysSeconds, float64(draft.Delay)/float64(time.Second))
	}
	rows, err := q.OutboxEnqueue(ctx, params)
	receipts := make([]Receipt, 0, len(rows))
	for _, row := range rows {
		receipts = append(receipts, Receipt{ID: row.EventID, Duplicate: row.Duplicate, SamePayload: row.SamePayload})
	}
	return receipts, err
}
