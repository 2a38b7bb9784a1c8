package migrate

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// The number is the same in every version of pgrail: "pgrail" in ASCII.
	tryLock = `SELECT pg_catalog.pg_try_advisory_xact_lock(123589602929004)`
	// lockPoll is how often a waiting instance asks again. Waiting inside the
	// lock function would hold a snapshot.
	lockPoll = 100 * time.Millisecond

	// begin exempts the transaction from the limits that would end it while
	// dbmate works on another connection.
	begin = `BEGIN ISOLATION LEVEL READ COMMITTED;
		SELECT pg_catalog.set_config(s.name, '0', true) FROM pg_catalog.pg_settings AS s
		WHERE s.name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`
)

// underLock runs f while holding the database's migration lock.
//
// The lock belongs to a transaction, so it holds through poolers that share
// sessions. That transaction must never sit on a snapshot: CREATE INDEX
// CONCURRENTLY in a file would wait for it, in vain. Hence its isolation level
// and the simple protocol; the extended one leaves a portal, and its snapshot,
// open after each statement.
func underLock(ctx context.Context, config *pgconn.Config, f func() error) error {
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return newError(ctx, "connect", "", err)
	}
	defer end(ctx, conn)
	if err := lock(ctx, conn); err != nil {
		return newError(ctx, "lock", "", err)
	}
	return f()
}

func lock(ctx context.Context, conn *pgconn.PgConn) error {
	if _, err := conn.Exec(ctx, begin).ReadAll(); err != nil {
		return err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		results, err := conn.Exec(ctx, tryLock).ReadAll()
		if err != nil || string(results[0].Rows[0][0]) == "t" {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end closes the session, and so the transaction and its lock, after ctx has
// ended too.
func end(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
