// Package shop is the back office of a small shop, as an example of an application on pgrail: it changes its own rows and
// enqueues events in the same transaction, delivers the events to another service over HTTP, signs people in, lets admins
// invite and remove each other, and takes in webhooks.
//
// Where to look: events.go has what can happen, record.go the transaction, deliver.go the handlers, staff.go and api.go
// the people, hooks.go the webhooks.
package shop

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/migrate"
)

// Shop is the application. It is safe for concurrent use.
type Shop struct {
	pool   *pgxpool.Pool
	people *pgidentity.Store
	admins *identity.Service
	log    *slog.Logger
}

// The shop's own tables. A real application has migrations of its own for them, in dbmate or whatever it likes.
//
//go:embed schema.sql
var schema string

// Open brings the database up to date, pgrail's part and then the shop's, and connects to it. Several instances may do so
// at the same time.
func Open(ctx context.Context, databaseURL string, log *slog.Logger) (*Shop, error) {
	if err := migrate.Up(ctx, databaseURL, migrate.WithLogger(log)); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("shop: the database URL cannot be read")
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("shop: open the pool: %w", err)
	}
	s := &Shop{pool: pool, log: log}
	if err := s.prepare(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

func (s *Shop) prepare(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, schema); err != nil {
		return fmt.Errorf("shop: create the tables: %w", err)
	}
	var err error
	if s.people, err = pgidentity.New(s.pool); err != nil {
		return err
	}
	s.admins, err = identity.New(identity.Config{Gateway: s.people, Invitations: s.people, Logger: s.log})
	return err
}

// Pool is for the worker, and for whoever wants to look at the books.
func (s *Shop) Pool() *pgxpool.Pool { return s.pool }

// Close waits for connections in use.
func (s *Shop) Close() { s.pool.Close() }
