package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox"
)

const (
	// countUpTo keeps a look at the queue cheap, however long it is.
	countUpTo = 100_000
	// stalled is how long nothing may happen before the demo asks why: longer than a lease.
	stalled = 45 * time.Second
)

// drain waits until nothing is left of the types that the workers handle.
func (d *demo) drain(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	happened, since := d.books.happened(), time.Now()
	for {
		waiting, err := d.waiting(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || waiting == 0 {
			return err
		}
		if now := d.books.happened(); now != happened {
			happened, since = now, time.Now()
		} else if time.Since(since) > stalled {
			return d.explain(ctx, waiting)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// waiting counts the events that are neither processed nor discarded.
func (d *demo) waiting(ctx context.Context) (n int, err error) {
	stats, err := outbox.Stats(ctx, d.shop.Pool(), countUpTo)
	for _, s := range stats {
		if slices.Contains(d.types, s.EventType) {
			n += s.Ready + s.Later + s.InFlight + s.Parked
		}
	}
	return n, err
}

// explain says why the oldest event does not move, as an operator would ask.
func (d *demo) explain(ctx context.Context, waiting int) error {
	var id uuid.UUID
	err := d.shop.Pool().QueryRow(ctx,
		`SELECT e.id FROM public.outbox_events e
		 WHERE e.status IN ('pending', 'failed', 'processing') AND e.event_type = ANY ($1)
		 ORDER BY e.created_at, e.id LIMIT 1`, d.types).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	why, err := outbox.Explain(ctx, d.shop.Pool(), id)
	if err != nil || why == nil {
		return err
	}
	text := fmt.Sprintf("nothing has moved for %v and %d events wait; the oldest, %s %s, is %s", stalled, waiting, why.EventType, id, why.Reason)
	if why.Blocker != nil {
		text += fmt.Sprintf(" by the %s %s %s", why.Blocker.Status, why.Blocker.EventType, why.Blocker.EventID)
	}
	return errors.New(text)
}
