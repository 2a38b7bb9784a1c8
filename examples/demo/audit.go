package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/examples/shop"
)

var (
	errUnbalanced = errors.New("the books do not balance")
	errTwoDemos   = errors.New("another demo is at work on this database")
)

// open takes over what an earlier run has left. Its session keeps other demos out until unlock, or until the process dies.
func (b *books) open(ctx context.Context, databaseURL string, types []string) (err error) {
	if b.session, err = pgx.Connect(ctx, databaseURL); err != nil {
		return err
	}
	var alone bool
	if err := b.session.QueryRow(ctx, `SELECT pg_try_advisory_lock(5446, 2)`).Scan(&alone); err != nil {
		return err
	}
	if !alone {
		return errTwoDemos
	}
	rows, err := b.session.Query(ctx,
		`SELECT e.id FROM public.outbox_events e
		 WHERE e.status IN ('pending', 'failed', 'processing') AND e.event_type = ANY ($1)`, types)
	if err != nil {
		return err
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, id := range left {
		b.entry(id).left = true
	}
	return err
}

func (b *books) unlock() {
	if b.session != nil {
		_ = b.session.Close(context.Background())
	}
}

// balance is what the books come to.
type balance struct {
	enqueued, left, revoked, delivered, discarded, waiting int

	lost     int // the table has no such event, or says processed and it never arrived
	untold   int // admins removed without an event that tells of it
	disorder int // arrived before something that stands earlier in the file
	overpaid int64
	slowest  *entry
}

// audit compares the books with the table, event by event.
func (b *books) audit(ctx context.Context, pool *pgxpool.Pool) (balance, error) {
	rows, err := pool.Query(ctx, `SELECT e.id, e.status FROM public.outbox_events e WHERE e.id = ANY ($1)`, b.ids())
	if err != nil {
		return balance{}, err
	}
	status := map[uuid.UUID]string{}
	var id uuid.UUID
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error { status[id] = text; return nil }); err != nil {
		return balance{}, err
	}
	result := b.compare(status)
	// What the handler has booked against what the invoices say that are through.
	err = pool.QueryRow(ctx,
		`SELECT coalesce((SELECT sum(t.cents) FROM shop.takings t), 0)::bigint - coalesce((
		   SELECT sum(i.cents) FROM shop.invoices i JOIN public.outbox_events e ON e.aggregate_id = i.id
		   WHERE e.event_type = 'invoice.settled' AND e.status = 'processed'), 0)::bigint`).Scan(&result.overpaid)
	return result, err
}

func (b *books) compare(status map[uuid.UUID]string) (sum balance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, e := range b.events {
		if !e.ours() {
			continue
		}
		sum.enqueued++
		arrived := !e.arrival.IsZero()
		switch {
		case status[id] == "discarded":
			sum.discarded++
		case status[id] == "" || status[id] == "processed" && !arrived:
			sum.lost++
		case status[id] == "processed":
			sum.delivered++
		default:
			sum.waiting++
		}
		switch {
		case e.left:
			sum.left++
		case e.eventType == shop.AdminRevoked.Type():
			sum.revoked++
		}
		if arrived && !e.asked.IsZero() && (sum.slowest == nil || e.took() > sum.slowest.took()) {
			sum.slowest = e
		}
	}
	sum.disorder = b.disorder()
	sum.untold = b.revokes - sum.revoked
	return sum
}

// disorder counts arrivals after that of a later line about the same customer, order or invoice. b.mu is held.
func (b *books) disorder() (n int) {
	latest := map[uuid.UUID]int{}
	for _, id := range b.arrivals {
		e := b.events[id]
		if e.line == 0 {
			continue
		}
		if e.line < latest[e.aggregate] {
			n++
		}
		latest[e.aggregate] = max(latest[e.aggregate], e.line)
	}
	return n
}

func (e *entry) took() time.Duration { return e.arrival.Sub(e.asked) }

func (s balance) check(stopped bool) error {
	if s.lost > 0 || s.disorder > 0 || s.overpaid != 0 || !stopped && (s.waiting > 0 || s.untold != 0) {
		return fmt.Errorf("%w: %+v", errUnbalanced, s)
	}
	return nil
}
