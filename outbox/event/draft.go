package event

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/google/uuid"
)

// What the rail takes, in bytes and time.
const (
	// MaxTypeBytes bounds event types and aggregate types, which are index keys.
	MaxTypeBytes = 255
	// MaxKeyBytes bounds idempotency keys, which are index keys.
	MaxKeyBytes = 1024
	// MaxPayloadBytes bounds an encoded payload: events name what happened, documents belong in storage of their own.
	MaxPayloadBytes = 1 << 20
	// MaxMetadataBytes bounds encoded metadata.
	MaxMetadataBytes = 16 << 10
	// MaxDelay bounds how far ahead an event can be scheduled.
	MaxDelay = 366 * 24 * time.Hour
)

// Draft is an event that is not written yet. [Definition.New] makes one from a typed payload; filling
// the fields by hand serves programs that relay events they have no type for.
type Draft struct {
	// EventType says what happened, for example "order.placed"; 1 to [MaxTypeBytes] bytes, not blank.
	EventType string
	// IdempotencyKey is unique within the event type; 1 to [MaxKeyBytes] bytes, not blank.
	IdempotencyKey string
	// AggregateType and AggregateID name what the event is about, and with it what it is ordered by.
	AggregateType string
	AggregateID   uuid.UUID
	// Payload is any JSON value that Postgres can store as jsonb, up to [MaxPayloadBytes].
	Payload json.RawMessage
	// Metadata is a JSON object beside the payload, for what handlers need and the domain does not: trace context,
	// tenant, user. Nil means {}. Its top-level keys must not be the rail's own ([ReservedMetadata]).
	Metadata map[string]any
	// Delay is how long after enqueueing the event becomes due, by the database's clock; 0 to [MaxDelay].
	// It holds up the later events of its aggregate.
	Delay time.Duration

	err error
}

// WithDelay returns a copy of the draft that becomes due after delay.
func (d Draft) WithDelay(delay time.Duration) Draft {
	d.Delay = delay
	return d
}

// WithMetadata returns a copy of the draft with one more metadata entry.
func (d Draft) WithMetadata(key string, value any) Draft {
	metadata := make(map[string]any, len(d.Metadata)+1)
	maps.Copy(metadata, d.Metadata)
	metadata[key] = value
	d.Metadata = metadata
	return d
}

// Validate reports the first thing that is wrong with the draft as an [*InvalidError], or nil.
// Enqueueing calls it for every draft before it sends anything.
func (d Draft) Validate() error {
	_, err := d.EncodeMetadata()
	for _, check := range []error{
		d.err,
		checkText("EventType", d.EventType, MaxTypeBytes),
		checkText("IdempotencyKey", d.IdempotencyKey, MaxKeyBytes),
		checkText("AggregateType", d.AggregateType, MaxTypeBytes),
		checkJSON("Payload", d.Payload, MaxPayloadBytes),
		checkDelay(d.Delay),
		err,
	} {
		if check != nil {
			return check
		}
	}
	return nil
}

// EncodeMetadata returns the metadata as a JSON object, "{}" for none.
func (d Draft) EncodeMetadata() (json.RawMessage, error) {
	if len(d.Metadata) == 0 {
		return json.RawMessage("{}"), nil
	}
	for _, key := range ReservedMetadata {
		if _, taken := d.Metadata[key]; taken {
			return nil, &InvalidError{Field: "Metadata", Problem: "has the key " + key, Allowed: "keys that the rail does not use itself"}
		}
	}
	encoded, err := encode("Metadata", d.Metadata)
	if err != nil {
		return nil, err
	}
	return encoded, checkJSON("Metadata", encoded, MaxMetadataBytes)
}

// ReservedMetadata lists the metadata keys that the rail writes itself.
var ReservedMetadata = []string{
	"claimToken", "lastClaimedAt", "discardReason", "discardedAt", "finalAttempts",
	"snoozeCount", "lastSnoozedAt", "redrivenAt", "redrivenBy", "redriveReason", "redriveCount",
	"discardedBy", "discardNote",
}
