package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox/event"
)

// Change is something that happens in the shop: the rows it writes and the event that tells of it.
type Change struct {
	Draft event.Draft
	write func(ctx context.Context, tx pgx.Tx) error
}

// line is how a change is written down: one JSON object in one line.
type line struct {
	Type string `json:"type"`
	ID   string `json:"id"`  // of the customer, order or invoice
	Key  string `json:"key"` // a second line with the same type and key is the same change again

	Data json.RawMessage `json:"data"` // the payload
}

// kinds are the changes that lines can ask for.
var kinds = map[string]func(line) (Change, error){
	CustomerRegistered.Type(): kind("customer", CustomerRegistered, register),
	CustomerMoved.Type():      kind("customer", CustomerMoved, move),
	OrderPlaced.Type():        kind("order", OrderPlaced, place),
	OrderPaid.Type():          kind("order", OrderPaid, pay),
	OrderShipped.Type():       kind("order", OrderShipped, ship),
	OrderCancelled.Type():     kind("order", OrderCancelled, cancel),
	InvoiceIssued.Type():      kind("invoice", InvoiceIssued, issue),
	InvoiceSettled.Type():     kind("invoice", InvoiceSettled, settle),
}

// ParseLine reads a change. What is wrong with the line is a [*FieldError].
func ParseLine(text []byte) (Change, error) {
	l, err := decode[line](text)
	if err != nil {
		return Change{}, err
	}
	build, known := kinds[l.Type]
	if !known {
		return Change{}, &FieldError{"type", "must be one of " + strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")}
	}
	return build(l)
}

// kind joins what belongs together: the aggregate that the event is ordered by, its definition, and the rows.
func kind[P interface{ check() error }](
	aggregate string, of event.Definition[P], write func(context.Context, pgx.Tx, uuid.UUID, P) error,
) func(line) (Change, error) {
	return func(l line) (Change, error) {
		id, err := parseID("id", l.ID)
		if err != nil {
			return Change{}, err
		}
		payload, err := decode[P](l.Data)
		if err == nil {
			err = payload.check()
		}
		if err != nil {
			return Change{}, within("data", err)
		}
		return newChange(of.New(aggregate, id, l.Key, payload), func(ctx context.Context, tx pgx.Tx) error {
			return write(ctx, tx, id, payload)
		})
	}
}

func newChange(draft event.Draft, write func(context.Context, pgx.Tx) error) (Change, error) {
	err := draft.Validate()
	var invalid *event.InvalidError
	if errors.As(err, &invalid) {
		err = &FieldError{jsonName[invalid.Field], fmt.Sprintf("%s (allowed: %s)", invalid.Problem, invalid.Allowed)}
	}
	return Change{Draft: draft, write: write}, err
}

// jsonName is where a draft's field stands in a line.
var jsonName = map[string]string{"IdempotencyKey": "key", "Payload": "data"}
