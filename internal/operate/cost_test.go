package operate_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// fill writes n events of each way to wait, and as much history.
func (b *box) fill(n int) {
	b.Helper()
	b.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, processed_at)
		select 'a', gen_random_uuid(), 'a', 'processed ' || g, '{}', 'processed', clock_timestamp() - make_interval(secs => g) from generate_series(1, $1) g`, n)
	b.exec(`insert into public.outbox_events (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		select clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 hour', 'a', md5((g / 2)::text)::uuid, 'b', 'due ' || g, '{}' from generate_series(1, $1) g`, n)
	b.exec(`insert into public.outbox_events (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, attempts)
		select clock_timestamp() - interval '1 hour', clock_timestamp() + interval '1 hour', 'a', md5(g::text)::uuid, 'c', 'failed ' || g, '{}', 'failed', 1 from generate_series(1, $1) g`, n)
	b.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, status)
		select 'a', gen_random_uuid(), 'd', 'discarded ' || g, '{}', 'discarded' from generate_series(1, $1) g`, n)
}

// read is how many rows of the table a statement reads. What the session has not reported yet counts as well, so it is the
// difference that tells.
func (b *box) read(sql string) int {
	b.Helper()
	const count = `select (seq_tup_read + idx_tup_fetch)::integer from pg_stat_xact_user_tables where relname = 'outbox_events'`
	var before, after int
	err := pgx.BeginFunc(b.Context(), b.sql, func(tx pgx.Tx) error {
		if err := tx.QueryRow(b.Context(), count).Scan(&before); err != nil {
			return err
		}
		if _, err := tx.Exec(b.Context(), sql); err != nil {
			return err
		}
		return tx.QueryRow(b.Context(), count).Scan(&after)
	})
	if err != nil {
		b.Fatalf("%s\n%v", sql, err)
	}
	return after - before
}

// What people and tail ask for again and again reads the same of a few thousand rows as of many, with fresh statistics
// and without.
func TestInspectionReadsNoMoreOfMore(t *testing.T) {
	t.Parallel()
	few, many := newBox(t), newBox(t)
	few.fill(1500)
	many.fill(12000)
	for range 2 {
		for _, sql := range []string{
			`select public.outbox_overview(100)`, `select public.outbox_blocked_aggregates()`, `select public.outbox_recent(5, 100)`,
		} {
			if a, b := few.read(sql), many.read(sql); a == 0 || float64(b) > 1.5*float64(a) {
				t.Errorf("%s reads %d rows of a few and %d of many", sql, a, b)
			}
		}
		few.exec(`analyze public.outbox_events`)
		many.exec(`analyze public.outbox_events`)
	}
}
