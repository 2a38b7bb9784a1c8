package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What each call begins and ends with where the session is a pooler's: the same as sessionDefaults, for this transaction alone.
const (
	begin        = `begin isolation level read committed read write`
	callDefaults = `select pg_catalog.set_config('statement_timeout', '60s', true), pg_catalog.set_config('lock_timeout', '2s', true)`
	commit       = `commit`
)

// sessions runs the loop's statements. On a session of our own a statement goes alone; on a pooler's it goes with its own
// transaction around it, in one round trip.
type sessions struct{ pool *pgxpool.Pool }

func (s sessions) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := s.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

func (s sessions) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := s.Query(ctx, sql, args...)
	return &oneRow{rows, err}
}

func (s sessions) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if !pooled(conn.Conn()) {
		return direct(ctx, conn, sql, args)
	}
	batch := &pgx.Batch{}
	batch.Queue(begin)
	batch.Queue(callDefaults)
	batch.Queue(sql, args...)
	batch.Queue(commit)
	call := &pooledCall{ctx: ctx, conn: conn, results: conn.SendBatch(ctx, batch)}
	return call.rows()
}

func direct(ctx context.Context, conn *pgxpool.Conn, sql string, args []any) (pgx.Rows, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &callRows{Rows: rows, end: func(error) error { conn.Release(); return nil }}, nil
}

// pooledCall is a statement under way within its transaction.
type pooledCall struct {
	ctx     context.Context
	conn    *pgxpool.Conn
	results pgx.BatchResults
}

// rows skips what comes before the statement's own answer.
func (c *pooledCall) rows() (pgx.Rows, error) {
	for range 2 {
		if _, err := c.results.Exec(); err != nil {
			return nil, c.end(err)
		}
	}
	rows, err := c.results.Query()
	if err != nil {
		return nil, c.end(err)
	}
	return &callRows{Rows: rows, end: c.end}, nil
}

// end ends the transaction: its answer is worth nothing before the commit has succeeded.
func (c *pooledCall) end(err error) error {
	defer c.conn.Release()
	if err == nil {
		_, err = c.results.Exec()
	}
	if closed := c.results.Close(); err == nil {
		err = closed
	}
	if err != nil && c.conn.Conn().PgConn().TxStatus() != 'I' {
		_, _ = c.conn.Exec(c.ctx, "rollback") // the pool drops the connection if this fails
	}
	return err
}

// callRows ends the call when the last row has been read.
type callRows struct {
	pgx.Rows
	end   func(error) error
	ended bool
	err   error
}

func (r *callRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *callRows) Close() {
	r.Rows.Close()
	if !r.ended {
		r.ended = true
		r.err = r.end(r.Rows.Err())
	}
}

func (r *callRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// oneRow is the first row of an answer.
type oneRow struct {
	rows pgx.Rows
	err  error
}

func (r *oneRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	var err error
	switch {
	case r.rows.Next():
		err = r.rows.Scan(dest...)
	case r.rows.Err() == nil:
		err = pgx.ErrNoRows
	}
	r.rows.Close()
	if failed := r.rows.Err(); failed != nil {
		return failed
	}
	return err
}
