package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connections of the pool: for claims, outcomes and leases, and one that heartbeat, healer, retention and the listener's calls
// share. Another one, outside the pool, listens.
const connections = 4

// connectTimeout counts where the application's configuration has none.
const connectTimeout = 10 * time.Second

// statementTimeout bounds a statement on the server, also one whose client is gone.
const statementTimeout = 60 * time.Second

// sessionDefaults make a role's or database's own defaults irrelevant for the loop.
const sessionDefaults = `SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
SET statement_timeout = '60s'; SET lock_timeout = '2s'; SET idle_session_timeout = 0`

// openPool opens the loop's own connections: handlers that use up the application's pool cannot keep the loop from
// acknowledging. How to connect is taken over from the application; its hooks around single uses of a connection are
// not, since they could reset the session.
func openPool(ctx context.Context, config *pgxpool.Config, link *link) (*pgxpool.Pool, error) {
	config.MaxConns, config.MinConns, config.MinIdleConns = connections, 0, 0
	config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, nil }
	config.AfterRelease = nil
	// Poolers know this one, and keep it apart for each client.
	config.ConnConfig.RuntimeParams["application_name"] = "pgrail worker"
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	inherited := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if inherited != nil {
			if err := inherited(ctx, conn); err != nil {
				return err
			}
		}
		return link.setUp(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("outbox: open the worker's connections: %w", err)
	}
	return pool, nil
}

// closePool does not wait for a network that swallows everything.
func closePool(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() { pool.Close(); close(closed) }()
	within(lastCall, closed, nil)
}

// connectLike opens a connection outside the pool that is set up like those inside.
func connectLike(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
	config := pool.Config()
	ctx, cancel := context.WithTimeout(ctx, config.ConnConfig.ConnectTimeout)
	defer cancel()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, err
	}
	if err := config.AfterConnect(ctx, conn); err != nil {
		hangUp(ctx, conn)
		return nil, err
	}
	return conn, nil
}

// hangUp closes a connection, politely if that is quick.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCall)
	defer cancel()
	_ = conn.Close(ctx)
}
