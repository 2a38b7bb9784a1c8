package inbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
)

// Outcome says what became of a delivery.
type Outcome string

// The outcomes. Each is answered with 200.
const (
	Recorded Outcome = "recorded" // for the first time, and its event is written
	Repeated Outcome = "repeated" // recorded before: nothing is written
	Ignored  Outcome = "ignored"  // Draft wants no event: nothing is written, so Draft is asked again about a repeat
)

// Receipt is the end of a delivery.
type Receipt struct {
	Outcome Outcome

	// Event is what the outbox made of the draft, if the delivery was recorded. A duplicate is an event of the same type
	// and idempotency key that was there already: the message came again after its retention, or another one has its key.
	Event outbox.Receipt
}

// Record is what the handler does with a verified delivery, for an application that writes more than the event: it drafts,
// records the message and enqueues the event in tx, which the caller then commits, or rolls back to have none of it.
// Unless the outcome is [Recorded], the caller has nothing to write either.
//
// It waits, for 5 seconds at most, for another transaction that is recording the same message, and then repeats it or
// takes its place. At the isolation levels repeatable read and serializable it fails instead if the other one commits,
// with [outbox.ErrRetryTransaction]. The errors are [*RefusedError], or an [*Error]; after either tx is to be rolled back.
func (in *Inbox) Record(ctx context.Context, tx pgx.Tx, d webhook.Delivery) (Receipt, error) {
	m, err := in.draft(ctx, d)
	if err != nil {
		return unlessIgnored(err)
	}
	return in.record(ctx, tx, m)
}

// message is a delivery as it is written.
type message struct {
	key   string
	event event.Draft
}

func (in *Inbox) draft(ctx context.Context, d webhook.Delivery) (message, error) {
	draft, err := in.config.Draft(ctx, d)
	if err != nil {
		return message{}, draftError(err)
	}
	m := message{d.Key(), draft}
	if draft.IdempotencyKey == "" {
		m.event.IdempotencyKey = in.config.Source + "/" + m.key
	}
	return m, nil
}

func unlessIgnored(err error) (Receipt, error) {
	if errors.Is(err, ErrIgnored) {
		return Receipt{Outcome: Ignored}, nil
	}
	return Receipt{}, err
}

// record writes the message first: whoever comes second with it waits there and enqueues nothing meanwhile.
func (in *Inbox) record(ctx context.Context, tx pgx.Tx, m message) (Receipt, error) {
	first, err := db.New(tx).WebhookInboxRecord(ctx, db.WebhookInboxRecordParams{Source: in.config.Source, Key: m.key})
	switch {
	case err != nil:
		return Receipt{}, newError("record", err)
	case !first:
		return Receipt{Outcome: Repeated}, nil
	}
	events, err := outbox.Enqueue(ctx, tx, m.event)
	if err != nil {
		return Receipt{}, newError("enqueue", err)
	}
	return Receipt{Outcome: Recorded, Event: events[0]}, nil
}
