package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/user"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
)

// app is what the commands share.
type app struct {
	ctx         context.Context
	out, errOut io.Writer
	database    string
	json        bool
	model       *kong.Application
}

// connectTimeout bounds each attempt to reach a server.
const connectTimeout = 10 * time.Second

// config reads the connection string. Nothing of it may get into a message.
func (a *app) config() (*pgx.ConnConfig, error) {
	if a.database == "" {
		return nil, fail(exitUse, "which database?\nSet DATABASE_URL, or give --database=postgres://user:password@host:5432/database")
	}
	config, err := pgx.ParseConfig(a.database)
	if err != nil {
		return nil, fail(exitUse, "DATABASE_URL or --database is no connection string\nIt looks like postgres://user:password@host:5432/database, or key=value pairs.")
	}
	// Named statements do not survive a pooler that changes the server's session, and in that mode times are read as text.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.RuntimeParams["datestyle"] = "ISO"
	config.RuntimeParams["application_name"] = "pgrail"
	if config.ConnectTimeout == 0 || config.ConnectTimeout > connectTimeout {
		config.ConnectTimeout = connectTimeout
	}
	return config, nil
}

// withConn runs f on a connection.
func (a *app) withConn(f func(*pgx.Conn) error) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(a.ctx, config)
	if err != nil {
		return err
	}
	defer leave(conn)
	return f(conn)
}

// leave ends the session. After an interruption the driver is still asking the server to stop what it does: a process that
// ended before would leave it running.
func leave(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// withQueries is withConn for commands that only need the queries.
func (a *app) withQueries(f func(*db.Queries) error) error {
	return a.withConn(func(conn *pgx.Conn) error { return f(db.New(conn)) })
}

// write runs f in a transaction whose settings do not depend on the role's defaults.
func (a *app) write(conn *pgx.Conn, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(a.ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, f)
}

// read runs f in a transaction that sees one state of the database, whatever happens meanwhile.
func (a *app) read(conn *pgx.Conn, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(a.ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f)
}

// print writes a result: value as JSON, or what table writes.
func (a *app) print(value any, table func(*table)) error {
	if a.json {
		encoder := json.NewEncoder(a.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	}
	t := newTable(a.out)
	table(t)
	return t.flush()
}

// note tells people what goes on.
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.errOut, format+"\n", args...) }

// often is how often progress is noted.
const often = time.Second

// progress returns a function that notes how far something long is, but not more often than asked.
func (a *app) progress(every time.Duration, format string) func(args ...any) {
	last := time.Now()
	return func(args ...any) {
		if time.Since(last) >= every {
			last = time.Now()
			a.note(format, args...)
		}
	}
}

// who is recorded with what changes events, unless the command line says otherwise.
func who(by string) string {
	if by != "" {
		return by
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
