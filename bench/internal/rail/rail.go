// Package rail works pgrail's outbox at the level of its SQL functions: what is
// measured there is the database's share, without the worker's.
package rail

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/bench/internal/testbed"
	"github.com/openlup/pgrail/migrate"
)

// Schema is the product's own, as an application would install it.
var Schema = testbed.Schema{
	Name:  "rail",
	Apply: func(ctx context.Context, url string) error { return migrate.Up(ctx, url) },
}

// Types are the event types that the measured callers handle.
var Types = []string{"t0", "t1", "t2", "t3"}

// Payload is that of every event and job: what an e-mail or an order would carry.
const Payload = `{"to":"someone@example.org","template":"welcome","n":1}`

// A Conn is a connection, a transaction or a pool.
type Conn interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Claimed are the events of one claim, with what acknowledging them needs.
type Claimed struct {
	IDs    []uuid.UUID
	Tokens []string
}

// Claim calls the contract's claim for at most limit events (1 to 100), and reads
// their payloads as a worker must.
func Claim(ctx context.Context, conn Conn, types []string, limit int) (Claimed, error) {
	return claim(ctx, conn, `
SELECT c.id, c.metadata ->> 'claimToken', c.payload
FROM public.outbox_claim_batch($1::text[], '{}'::text[], $2::integer) AS c`, types, limit)
}

// ClaimWide calls the rail's own, wider claim.
func ClaimWide(ctx context.Context, conn Conn, types []string, limit int) (Claimed, error) {
	return claim(ctx, conn, `
SELECT c.id, c.metadata ->> 'claimToken', c.payload
FROM public.outbox_claim_events($1::text[], '{}'::text[], $2::integer, 300, 8) AS c`, types, limit)
}

func claim(ctx context.Context, conn Conn, sql string, types []string, limit int) (Claimed, error) {
	rows, err := conn.Query(ctx, sql, types, limit)
	if err != nil {
		return Claimed{}, err
	}
	var c Claimed
	var id uuid.UUID
	var token string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &token, &payload}, func() error {
		c.IDs, c.Tokens = append(c.IDs, id), append(c.Tokens, token)
		return nil
	})
	return c, err
}

// Acknowledge ends claimed events as processed and returns how many were ended.
func Acknowledge(ctx context.Context, conn Conn, c Claimed) (int, error) {
	var n int
	err := conn.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE m.outcome = 'processed')
FROM public.outbox_mark_processed_many($1::uuid[], $2::text[]) AS m`, c.IDs, c.Tokens).Scan(&n)
	return n, err
}

// Unprocessed counts the events not yet acknowledged.
func Unprocessed(ctx context.Context, conn Conn) (int, error) {
	var n int
	err := conn.QueryRow(ctx, `
SELECT count(*) FROM public.outbox_events AS e
WHERE e.status IN ('pending', 'processing', 'failed')`).Scan(&n)
	return n, err
}
