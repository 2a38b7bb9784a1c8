package outbox

import (
	"context"
	"fmt"

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

// maxCall is how many bytes one call takes: a message to the server cannot be longer than 1 GiB.
const maxCall = 256 << 20

// Enqueue writes events, in one statement, and returns a receipt per draft, in order. Events of one aggregate are handled
// in the order of the drafts, and after everything enqueued for it before; its aggregates stay locked until the
// transaction ends, so a second transaction that enqueues for one of them waits.
//
// A duplicate is a receipt, not an error, and leaves the transaction alive. An invalid draft is an error that matches
// [ErrInvalid] and names its index and field, before anything is sent; so is more than 256 MiB in one call.
// [ErrRetryTransaction] means that the whole transaction should run again: transactions that enqueue in several calls can
// lock in opposite order, which one call never does. Aggregates share 65,536 locks, so this can happen, and an unrelated
// producer can have to wait, although the aggregates are different: transactions that enqueue for thousands of them
// had better do so in one call.
func Enqueue(ctx context.Context, tx DB, drafts ...event.Draft) ([]Receipt, error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	params, err := toParams(drafts)
	if err != nil {
		return nil, err
	}
	rows, err := on(tx).OutboxEnqueue(ctx, params)
	if err != nil {
		return nil, translatePayload("enqueue", err)
	}
	receipts := make([]Receipt, 0, len(rows))
	for _, row := range rows {
		receipts = append(receipts, Receipt{ID: row.EventID, Duplicate: row.Duplicate, SamePayload: row.SamePayload})
	}
	return receipts, nil
}

// toParams is the one place where drafts become parameters.
func toParams(drafts []event.Draft) (params db.OutboxEnqueueParams, err error) {
	if err := checkSize(drafts); err != nil {
		return params, err
	}
	params = roomFor(len(drafts))
	for i, draft := range drafts {
		if err := draft.Validate(); err != nil {
			return params, fmt.Errorf("outbox: draft %d: %w", i, err)
		}
		metadata, err := draft.EncodeMetadata()
		if err != nil {
			return params, fmt.Errorf("outbox: draft %d: %w", i, err)
		}
		params.EventTypes[i] = draft.EventType
		params.IdempotencyKeys[i] = draft.IdempotencyKey
		params.AggregateTypes[i] = draft.AggregateType
		params.AggregateIds[i] = draft.AggregateID.String()
		params.Payloads[i] = string(draft.Payload)
		params.Metadata[i] = string(metadata)
		params.DelaysSeconds[i] = draft.Delay.Seconds()
	}
	return params, nil
}

func roomFor(n int) db.OutboxEnqueueParams {
	return db.OutboxEnqueueParams{
		EventTypes:      make([]string, n),
		IdempotencyKeys: make([]string, n),
		AggregateTypes:  make([]string, n),
		AggregateIds:    make([]string, n),
		Payloads:        make([]string, n),
		Metadata:        make([]string, n),
		DelaysSeconds:   make([]float64, n),
	}
}

// checkSize counts what can be large. Metadata is bounded too tightly to matter beside it.
func checkSize(drafts []event.Draft) error {
	size := 0
	for _, draft := range drafts {
		size += len(draft.Payload) + len(draft.IdempotencyKey)
	}
	// A single draft that is too large is told by its own field.
	if size > maxCall && len(drafts) > 1 {
		return &ConfigError{"drafts", fmt.Sprintf("%d bytes in all", size), fmt.Sprintf("at most %d bytes in one call", maxCall)}
	}
	return nil
}
