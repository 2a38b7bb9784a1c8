package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// Floor is the least that a rail on this table could do: the same rows, with the
// same columns, checks and indexes, moved to where a claim and then to where an
// acknowledgement puts them by two bare UPDATEs per batch. It knows the ids
// beforehand: no looking for rows, no locks, no order, no triggers, no answer.
type Floor struct{ Batch, Conns int }

func (f Floor) String() string {
	return fmt.Sprintf("floor: two bare UPDATEs, %d × %d", f.Conns, f.Batch)
}

// copyTable leaves the triggers behind. Storage settings are not copied by LIKE, and generated columns fill themselves.
const copyTable = `
CREATE TABLE public.floor (LIKE public.outbox_events INCLUDING ALL);
DO $copy$
DECLARE
  v_options text := (SELECT array_to_string(c.reloptions, ', ') FROM pg_class AS c WHERE c.oid = 'public.outbox_events'::regclass);
BEGIN
  IF v_options IS NOT NULL THEN
    EXECUTE 'ALTER TABLE public.floor SET (' || v_options || ')';
  END IF;
  EXECUTE (
    SELECT format('INSERT INTO public.floor (%1$s) SELECT %1$s FROM public.outbox_events ORDER BY created_at, id',
      string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum))
    FROM pg_attribute AS a
    WHERE a.attrelid = 'public.outbox_events'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '');
END $copy$;
TRUNCATE public.outbox_events`

const (
	bareClaim = `
UPDATE public.floor
SET status = 'processing', attempts = attempts + 1, available_at = clock_timestamp() + interval '5 minutes',
  metadata = metadata || jsonb_build_object('lastClaimedAt', clock_timestamp(), 'claimToken', gen_random_uuid()::text)
WHERE id = ANY ($1::uuid[])`
	bareAcknowledgement = `
UPDATE public.floor SET status = 'processed', processed_at = clock_timestamp(), lane = NULL WHERE id = ANY ($1::uuid[])`
)

// Drain fills a database with n events and returns what moving them took.
func (f Floor) Drain(ctx context.Context, bed *testbed.Bed, n int) (Effort, error) {
	db, err := bed.Database(ctx, rail.Schema)
	if err != nil {
		return Effort{}, err
	}
	defer db.Drop()
	if err := rail.Fill(ctx, db.Pool, n, 5000, rail.OneEach); err != nil {
		return Effort{}, err
	}
	if _, err := db.Pool.Exec(ctx, copyTable); err != nil {
		return Effort{}, err
	}
	if err := db.Rest(ctx); err != nil {
		return Effort{}, err
	}
	batches, err := f.batches(ctx, db)
	if err != nil {
		return Effort{}, err
	}
	return Measure(ctx, db, n, func() error {
		return parallel(ctx, db.Pool, f.Conns, func(ctx context.Context, conn rail.Conn) error {
			return f.move(ctx, conn, batches)
		})
	})
}

func (f Floor) batches(ctx context.Context, db *testbed.Database) (<-chan []uuid.UUID, error) {
	rows, err := db.Pool.Query(ctx, `SELECT id FROM public.floor ORDER BY created_at, id`)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	batches := make(chan []uuid.UUID, len(ids)/f.Batch+1)
	for batch := range slices.Chunk(ids, f.Batch) {
		batches <- batch
	}
	close(batches)
	return batches, err
}

func (f Floor) move(ctx context.Context, conn rail.Conn, batches <-chan []uuid.UUID) error {
	if _, err := conn.Exec(ctx, "SET enable_seqscan = off"); err != nil {
		return err
	}
	for batch := range batches {
		for _, update := range []string{bareClaim, bareAcknowledgement} {
			if tag, err := conn.Exec(ctx, update, batch); err != nil || int(tag.RowsAffected()) != len(batch) {
				return errors.Join(err, fmt.Errorf("%d of %d rows moved", tag.RowsAffected(), len(batch)))
			}
		}
	}
	return nil
}
