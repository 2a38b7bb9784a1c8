package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/db"
)

// Reason is why an event does not move.
type Reason string

// The reasons of an [Explanation].
const (
	ReasonProcessed    Reason = "processed"
	ReasonDiscarded    Reason = "discarded"
	ReasonInFlight     Reason = "in_flight"
	ReasonLeaseExpired Reason = "lease_expired" // its worker is gone; the next claim takes it
	ReasonHalted       Reason = "halted"
	ReasonBlocked      Reason = "blocked" // by an older event of the aggregate
	ReasonNotDue       Reason = "not_due"
	ReasonClaimable    Reason = "claimable" // nothing is in its way: is a worker for its type running?
)

// Explanation says why an event does not move.
type Explanation struct {
	EventID   uuid.UUID
	EventType string
	// Status as in the table: pending, processing, processed, failed or discarded.
	Status   string
	Reason   Reason
	Attempts int
	// DueIn is negative when the event has been due for that long. For an event in flight it is what is left of its lease.
	DueIn time.Duration
	// ClaimedAt is when it was last claimed, as text by the database's clock; empty for never.
	ClaimedAt string
	// HeldBy is the worker that has it in flight, as listed in outbox_workers; the zero UUID for none, or one unnamed.
	HeldBy uuid.UUID
	// Blocker is the oldest event in its way, or nil.
	Blocker *Blocker
	// WaitingBehind counts the younger events of the aggregate that wait, up to 10000.
	WaitingBehind int
}

// Blocker is an older event that holds up another one.
type Blocker struct {
	EventID   uuid.UUID
	EventType string
	Status    string
	Attempts  int
	DueIn     time.Duration
	ClaimedAt string
	HeldBy    uuid.UUID
}

// Explain says why an event does not move, or returns nil when there is no such event.
func Explain(ctx context.Context, tx DB, eventID uuid.UUID) (*Explanation, error) {
	rows, err := on(tx).OutboxExplain(ctx, db.OutboxExplainParams{EventID: eventID})
	if err != nil || len(rows) == 0 {
		return nil, translate("explain", err)
	}
	return toExplanation(rows[0]), nil
}

// ExplainAggregate explains the event that an aggregate stands at, or returns nil when none of its events waits.
func ExplainAggregate(ctx context.Context, tx DB, aggregateType string, aggregateID uuid.UUID) (*Explanation, error) {
	if err := checkTexts("aggregateType", aggregateType); err != nil {
		return nil, err
	}
	ids, err := on(tx).OutboxOldestOfAggregate(ctx, db.OutboxOldestOfAggregateParams{
		AggregateType: aggregateType, AggregateID: aggregateID,
	})
	if err != nil || len(ids) == 0 {
		return nil, translate("explain aggregate", err)
	}
	return Explain(ctx, tx, ids[0])
}

// toExplanation is the one place where a row becomes an explanation.
func toExplanation(row db.OutboxExplainRow) *Explanation {
	e := &Explanation{
		EventID: row.EventID, EventType: row.EventType, Status: row.Status, Reason: Reason(row.Reason),
		Attempts: int(row.Attempts), DueIn: inSeconds(row.DueInSeconds), ClaimedAt: row.ClaimedAt,
		WaitingBehind: int(row.WaitingBehind), HeldBy: parsed(row.HeldBy),
	}
	if id, err := uuid.Parse(row.BlockerID); err == nil {
		e.Blocker = &Blocker{
			EventID: id, EventType: row.BlockerType, Status: row.BlockerStatus, Attempts: int(row.BlockerAttempts),
			DueIn: inSeconds(row.BlockerDueInSeconds), ClaimedAt: row.BlockerClaimedAt,
			HeldBy: parsed(row.BlockerHeldBy),
		}
	}
	return e
}

// parsed reads an id that the query has written as text, blank for none.
func parsed(text string) uuid.UUID {
	id, _ := uuid.Parse(text)
	return id
}
