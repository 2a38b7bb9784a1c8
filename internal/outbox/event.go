// Package outbox is the mechanism of the outbox rail: the loop that claims events, hands them to a
// handler and settles the outcome. The protocol itself stands in SQL (db/migrations); what
// applications see stands in the public package of the same name.
package outbox

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/db"
)

// Envelope mirrors the public envelope field by field: the compiler refuses the conversion when they drift apart.
type Envelope struct {
	ID             uuid.UUID
	CreatedAt      time.Time
	EventType      string
	IdempotencyKey string
	AggregateType  string
	AggregateID    uuid.UUID
	Attempt        int
	Payload        json.RawMessage
	Metadata       json.RawMessage
}

// Claimed is an event that this worker holds under a token.
type Claimed struct {
	Envelope
	Token string
	// Snoozes is how often it has been snoozed before.
	Snoozes int
	// Trial says that it was claimed to find out whether its type's downstream is back.
	Trial bool
}

// toClaimed is the one place where a claimed row becomes an event.
func toClaimed(row db.OutboxClaimRow) Claimed {
	return Claimed{
		Token:   row.ClaimToken,
		Snoozes: int(row.Snoozes),
		Envelope: Envelope{
			ID:             row.ID,
			CreatedAt:      row.CreatedAt.UTC(),
			EventType:      row.EventType,
			IdempotencyKey: row.IdempotencyKey,
			AggregateType:  row.AggregateType,
			AggregateID:    row.AggregateID,
			Attempt:        int(row.Attempts),
			Payload:        row.Payload,
			Metadata:       row.Metadata,
		},
	}
}
