// Package migrate creates and upgrades pgrail's objects in a database.
//
//	err := migrate.Up(ctx, databaseURL)
//
// Call it before the application's workers start, from as many instances as
// there are: one applies what is missing, the others wait for it and find
// nothing to do. The files are those of package db, applied by dbmate as a
// library; no other program is run, and nothing is written to standard output.
//
// A file that has been applied must not change afterwards. Each one's hash is
// recorded in public.pgrail_schema_migrations_hashes when it is applied, and both
// Up and Down refuse to touch a database of which an applied file differs from
// the one that this pgrail carries, with a [*catalogue.DriftError] naming it.
//
// The role in the URL owns what it creates, so it must be able to create objects
// in schema public. Where all is applied already Up only looks, which every role
// may that "pgrail grant" has given any kind of rights: so an application may
// call Up at its start in a role of its own, and learns from an error with
// SQLSTATE 42501 that the owner has to run "pgrail migrate up" first.
package migrate

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"regexp"

	"github.com/amacneil/dbmate/v2/pkg/dbmate"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/catalogue"
	"github.com/openlup/pgrail/db"
)

// DefaultTable records which of pgrail's files a database has. It is not
// dbmate's own schema_migrations, so that an application can keep its files and
// their numbers in dbmate too.
const DefaultTable = "public.pgrail_schema_migrations"

type config struct {
	table string
	log   *slog.Logger
	files fs.FS
}

// An Option changes how Up and Down work.
type Option func(*config)

// WithTable records the applied files in the named table, in the form
// schema.table, instead of DefaultTable. It serves databases to which the dbmate
// program has applied pgrail's files already. Every later call needs the same.
func WithTable(name string) Option {
	return func(c *config) { c.table = name }
}

// WithLogger reports each file at level Info. The default reports nothing.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) { c.log = log }
}

// Up applies every file that the database does not have yet, each in a
// transaction of its own. A database that has them all is left alone.
//
// databaseURL is a connection string as pgx reads it: a URL or key=value
// pairs, completed by the PG* variables. Two connections are used.
//
// ctx bounds the whole call, the wait for another instance included; ending it
// cancels the running statement, and what its file did is rolled back.
//
// The error is a [*ConfigError] where the call itself is wrong, else an [*Error],
// around a [*catalogue.DriftError] where a file is not what was released or
// applied.
func Up(ctx context.Context, databaseURL string, opts ...Option) error {
	return run(ctx, databaseURL, opts, "apply", (*dbmate.DB).Migrate)
}

// Down rolls back the latest applied file, and with it the data in what that
// file created. It returns an error matching [ErrNothingApplied] when there is
// none. Its other errors are those of [Up].
func Down(ctx context.Context, databaseURL string, opts ...Option) error {
	return run(ctx, databaseURL, opts, "roll back", (*dbmate.DB).Rollback)
}

func run(ctx context.Context, databaseURL string, opts []Option, op string, action func(*dbmate.DB) error) error {
	cfg := config{table: DefaultTable, log: slog.New(slog.DiscardHandler), files: db.Migrations}
	for _, opt := range opts {
		opt(&cfg)
	}
	conn, err := cfg.check(databaseURL)
	if err != nil {
		return err
	}
	if err := catalogue.Check(db.Migrations); err != nil {
		return newError(ctx, op, "", err)
	}
	return underLock(ctx, &conn.Config, func() error { return cfg.runDBMate(ctx, conn, op, action) })
}

// tableName admits what needs no quotes, because dbmate and people both write
// the name into statements.
var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}$`)

func (c *config) check(databaseURL string) (*pgx.ConnConfig, error) {
	if !tableName.MatchString(c.table) {
		return nil, &ConfigError{"table", "must have the form schema.table in lower-case letters, digits and underscores, 63 at most each"}
	}
	if c.log == nil {
		return nil, &ConfigError{"logger", "must not be nil"}
	}
	if databaseURL == "" {
		return nil, &ConfigError{"database URL", "must not be empty"}
	}
	conn, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		// The parser's own error carries the string, password and all.
		return nil, &ConfigError{"database URL", "must be a connection string: postgres://user:password@host:port/database or key=value pairs"}
	}
	// Named statements do not survive a pooler that changes the server's session.
	conn.DefaultQueryExecMode = pgx.QueryExecModeExec
	return conn, nil
}

// runDBMate lets dbmate do its work over pgx connections that end with ctx.
func (c *config) runDBMate(ctx context.Context, conn *pgx.ConnConfig, op string, action func(*dbmate.DB) error) error {
	bound, release := bindToContext(ctx, conn)
	defer release()
	out := &progress{log: c.log}
	m := dbmate.New(bound)
	m.FS, m.MigrationsDir = c.files, []string{"."}
	m.MigrationsTableName = c.table
	m.AutoDumpSchema = false
	m.Strict = true
	m.Log = out
	err := action(m)
	switch {
	case errors.Is(err, dbmate.ErrNoRollback):
		return ErrNothingApplied
	case err != nil:
		return newError(ctx, op, out.file, err)
	}
	return nil
}
