package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/examples/shop"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// books note what went in at one end and what came out at the other, without asking the rail in between.
type books struct {
	session *pgx.Conn

	mu       sync.Mutex
	lines    int
	refusals int
	again    int // lines with a type and key that had been recorded before
	retries  int
	discards int
	repeats  int
	revokes  int // admins removed, each of which must have made an event
	events   map[uuid.UUID]*entry
	arrivals []uuid.UUID // first ones only, in order
}

// entry is one event.
type entry struct {
	eventType string
	aggregate uuid.UUID
	line      int  // 0 if it came another way
	left      bool // by an earlier run
	tries     int
	asked     time.Time // zero if an earlier run recorded it
	arrival   time.Time // zero if it did not arrive yet
}

// ours tells the events of this run from those that an earlier run has finished and this one's lines only mention.
func (e *entry) ours() bool { return e.left || e.tries > 0 || !e.asked.IsZero() || !e.arrival.IsZero() }

func newBooks() *books {
	return &books{events: map[uuid.UUID]*entry{}}
}

// entry finds or begins the entry of an event: its arrival may be noted before its receipt. b.mu is held.
func (b *books) entry(id uuid.UUID) *entry {
	e, known := b.events[id]
	if !known {
		e = &entry{}
		b.events[id] = e
	}
	return e
}

func (b *books) refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines++
	b.refusals++
}

func (b *books) revoked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revokes++
}

func (b *books) recorded(o order, asked time.Time, receipt outbox.Receipt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines++
	e := b.entry(receipt.ID)
	if e.line == 0 {
		e.eventType, e.aggregate, e.line = o.change.Draft.EventType, o.change.Draft.AggregateID, o.line
	}
	if receipt.Duplicate {
		b.again++
		return
	}
	e.asked = asked
}

// tried counts the deliveries of an event that reach the receiver.
func (b *books) tried(id uuid.UUID, eventType string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(id)
	e.eventType = eventType
	e.tries++
	return e.tries
}

// arrived notes that an event has had its effect.
func (b *books) arrived(id uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(id)
	if !e.arrival.IsZero() {
		b.repeats++
		return
	}
	e.arrival = time.Now()
	b.arrivals = append(b.arrivals, id)
}

// observe is middleware around every handler. Settled invoices never reach the receiver: they have arrived when their
// transaction has committed, which it has when the handler beneath returns nil.
func (b *books) observe(next event.Handler) event.Handler {
	return func(ctx context.Context, e event.Envelope) error {
		err := next(ctx, e)
		var discard *event.DiscardError
		b.mu.Lock()
		switch {
		case errors.As(err, &discard):
			b.discards++
		case err != nil:
			b.retries++
		}
		b.mu.Unlock()
		if err == nil && e.EventType == shop.InvoiceSettled.Type() {
			b.arrived(e.ID)
		}
		return err
	}
}

// happened grows with everything that goes on.
func (b *books) happened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.arrivals) + b.retries + b.discards + b.repeats + len(b.events)
}

func (b *books) ids() []uuid.UUID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.events))
}
