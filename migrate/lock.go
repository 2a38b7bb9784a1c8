package migrate

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// lockKey is one number for every version of pgrail: "pgrail" in ASCII.
	lockKey = 0x70677261696c
	// lockPoll is how often a waiting instance asks again. Waiting inside the
	// lock function would hold a snapshot, for which CREATE INDEX CONCURRENTLY
	// in the other instance would wait in turn.
	lockPoll = 100 * time.Millisecond
)

// underLock runs f while holding the database's migration lock. The lock
// belongs to a transaction, so it holds through poolers that share sessions.
func underLock(ctx context.Context, config *pgx.ConnConfig, f func() error) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return newError(ctx, "connect", "", err)
	}
	defer closeConn(ctx, conn)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return newError(ctx, "lock", "", err)
	}
	if err := lock(ctx, tx); err != nil {
		return newError(ctx, "lock", "", err)
	}
	return f()
}

// lock waits until this transaction has the lock, and exempts the transaction
// from the limits that would end it while dbmate works on another connection.
func lock(ctx context.Context, tx pgx.Tx) error {
	const exempt = `SELECT pg_catalog.set_config(s.name, '0', true)
		FROM pg_catalog.pg_settings AS s
		WHERE s.name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`
	if _, err := tx.Exec(ctx, exempt); err != nil {
		return err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		var held bool
		row := tx.QueryRow(ctx, `SELECT pg_catalog.pg_try_advisory_xact_lock($1::bigint)`, int64(lockKey))
		if err := row.Scan(&held); err != nil || held {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// closeConn ends the session and so the transaction and its lock, after ctx has
// ended too.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
