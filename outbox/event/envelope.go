package event

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Envelope is an event as it reaches a handler.
type Envelope struct {
	// ID identifies the event; handlers with effects outside the database can use it to recognise a repeat.
	ID uuid.UUID
	// CreatedAt is the order of the aggregate's events, by the database's clock, in UTC.
	CreatedAt      time.Time
	EventType      string
	IdempotencyKey string
	AggregateType  string
	AggregateID    uuid.UUID
	// Attempt counts this delivery, from 1. Snoozed deliveries and those that never started do not count.
	Attempt int
	Payload json.RawMessage
	// Metadata holds the producer's entries and the rail's own ([ReservedMetadata]).
	Metadata json.RawMessage
}

// Event is an envelope with its payload decoded.
type Event[P any] struct {
	Envelope
	Payload P
}

// Handler handles one event. Its error decides what becomes of the event:
//
//   - nil: processed;
//   - [Discard]: never tried again;
//   - [Snooze]: tried again later, and the attempt is not counted;
//   - [RetryAfter]: tried again after that time, and counted;
//   - [Unavailable], or an error that [IsUnavailable] recognises: snoozed, and the whole type pauses;
//   - any other: tried again by the backoff, and counted.
//
// The context ends when the worker stops, or when the lease of the event is lost; its cause says which.
type Handler func(ctx context.Context, envelope Envelope) error

// Middleware wraps a handler, for logs, traces or transactions around every event.
type Middleware func(next Handler) Handler
