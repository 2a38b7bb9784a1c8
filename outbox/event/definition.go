package event

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/google/uuid"
)

// Definition binds an event type to the Go type of its payload. Producers draft
// events with it and consumers register handlers by it, so that the two
// cannot disagree about what travels. The zero value is not usable.
type Definition[P any] struct {
	eventType string
}

// defined remembers every payload type by event type, process-wide: two packages
// that define one event type with different payloads are told so at start.
var defined sync.Map

// Define binds eventType, 1 to [MaxTypeBytes] bytes and not blank, to payload P. P is
// encoded by encoding/json, which puts U+FFFD in the place of bytes that are not UTF-8.
// Defining the same pair again is fine; defining the event type with
// another payload is an [*InvalidError] on field "EventType".
func Define[P any](eventType string) (Definition[P], error) {
	if err := checkText("EventType", eventType, MaxTypeBytes); err != nil {
		return Definition[P]{}, err
	}
	payload := reflect.TypeFor[P]()
	if known, _ := defined.LoadOrStore(eventType, payload); known != payload {
		return Definition[P]{}, &InvalidError{
			Field:   "EventType",
			Problem: fmt.Sprintf("%q is already defined with payload %v", eventType, known),
			Allowed: "one payload type per event type",
		}
	}
	return Definition[P]{eventType: eventType}, nil
}

// MustDefine is [Define] for package-level variables: it panics on a bad definition.
func MustDefine[P any](eventType string) Definition[P] {
	definition, err := Define[P](eventType)
	if err != nil {
		panic(err)
	}
	return definition
}

// Type returns the event type.
func (d Definition[P]) Type() string { return d.eventType }

// New drafts an event about one aggregate. Events of one aggregate are handled one
// at a time, in the order in which they were enqueued. The key makes the event
// unique within its type: enqueueing it again writes nothing and reports a
// duplicate. What is wrong with any of it is reported by [Draft.Validate] and
// by enqueueing, before any SQL.
func (d Definition[P]) New(aggregateType string, aggregateID uuid.UUID, key string, payload P) Draft {
	draft := Draft{
		EventType:      d.eventType,
		IdempotencyKey: key,
		AggregateType:  aggregateType,
		AggregateID:    aggregateID,
	}
	draft.Payload, draft.err = encode("Payload", payload)
	return draft
}

// Decode reads the payload of an envelope of this type. A payload that does
// not fit P is an error that matches [ErrUndecodable].
func (d Definition[P]) Decode(envelope Envelope) (P, error) {
	var payload P
	if envelope.EventType != d.eventType {
		return payload, fmt.Errorf("%w: event type %q is not %q", ErrUndecodable, envelope.EventType, d.eventType)
	}
	if err := json.Unmarshal(envelope.Payload, &payload); err != nil {
		return payload, fmt.Errorf("%w: %w", ErrUndecodable, describe(err))
	}
	return payload, nil
}

// describe keeps the kind and the place of a decoding error, not the text around it: errors reach logs, payloads must not.
func describe(err error) error {
	switch e := err.(type) {
	case *json.UnmarshalTypeError:
		return fmt.Errorf("field %q cannot hold a JSON %s", e.Field, jsonKind(e.Value))
	case *json.SyntaxError:
		return fmt.Errorf("malformed JSON at offset %d", e.Offset)
	default:
		return fmt.Errorf("payload refused by its decoder (%T)", err)
	}
}

// jsonKind drops the literal that encoding/json appends to numbers ("number 1e400").
func jsonKind(value string) string {
	for i, r := range value {
		if r == ' ' {
			return value[:i]
		}
	}
	return value
}
