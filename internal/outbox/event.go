// Package outbox is the mechanism of the outbox rail: the loop that claims events, hands them to a
// handler and settles the outcome. The protocol itself stands in SQL (db/migrations); what
// applications see stands in the public package of the same name.
package outbox

import (
	"encoding/json"
	"fmt"
	"math"
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
func toClaimed(row db.OutboxEvent) (Claimed, error) {
	// Into a map, whose keys are compared to the letter: a struct would also take a producer's "claimtoken" for ours.
	var metadata map[string]json.RawMessage
	var token string
	err := json.Unmarshal(row.Metadata, &metadata)
	if err == nil {
		err = json.Unmarshal(metadata["claimToken"], &token)
	}
	if err != nil {
		return Claimed{}, fmt.Errorf("outbox: metadata of event %s: %w", row.ID, err)
	}
	return Claimed{
		Token:   token,
		Snoozes: snoozes(metadata["snoozeCount"]),
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
	}, nil
}

// snoozes reads a count that anyone may have tampered with: what is no number counts as 0, as in the SQL.
func snoozes(count json.RawMessage) int {
	var n float64
	if err := json.Unmarshal(count, &n); err != nil {
		return 0
	}
	return int(max(0, min(n, math.MaxInt32)))
}
