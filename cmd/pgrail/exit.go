package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/catalogue"
	"github.com/openlup/pgrail/migrate"
	"github.com/openlup/pgrail/outbox"
)

// The exit statuses; the command's documentation lists them.
const (
	exitFailed      = 1
	exitUse         = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitFindings    = 5
	exitUnconnected = 6
	exitUnmigrated  = 7
	exitForbidden   = 8
	exitInterrupted = 130
)

// A failure ends a command with its exit status.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

// fail makes one. The arguments may come from the command line.
func fail(code int, format string, args ...any) error {
	for i := range args {
		if text, ok := args[i].(string); ok {
			args[i] = redact(text)
		}
	}
	return &failure{code, fmt.Sprintf(format, args...)}
}

const unmigrated = "the database does not have this version's schema\nRun: pgrail migrate up"

// describe is the one place where an error becomes what people read and an exit status.
func describe(ctx context.Context, err error) (string, int) {
	var own *failure
	var pgErr *pgconn.PgError
	var config *migrate.ConfigError
	var drift *catalogue.DriftError
	switch {
	case errors.As(err, &own):
		return own.text, own.code
	case ctx.Err() != nil:
		return "interrupted", exitInterrupted
	case errors.As(err, &config), errors.Is(err, outbox.ErrInvalid):
		return err.Error(), exitUse
	case errors.As(err, &drift):
		return drift.Error() + "\nA released file never changes: find out who edited it.", exitFindings
	case isConnect(err):
		return describeConnect(err), exitUnconnected
	case errors.Is(err, outbox.ErrNotMigrated):
		return unmigrated, exitUnmigrated
	case errors.As(err, &pgErr):
		return describeState(pgErr)
	case isBroken(err):
		return "the connection to the server broke\nTry again; what was committed before stays.", exitUnconnected
	}
	return redact(err.Error()), exitFailed
}

func describeState(err *pgconn.PgError) (string, int) {
	switch err.Code {
	case "42883", "42P01", "42703", "3F000":
		return unmigrated, exitUnmigrated
	case "42501":
		return "the role lacks a right: " + err.Message + "\nConnect as the owner of the schema, or let the owner run: pgrail grant operator ROLE", exitForbidden
	case "25006":
		return "the database takes no writes: a standby, or set to read only\nConnect to the primary.", exitFailed
	case "40001", "40P01", "55P03":
		return "others hold what this needs (" + err.Message + ")\nTry again.", exitFailed
	case "22021", "22023":
		return "the database refuses an argument: " + err.Message, exitUse
	case "57014":
		return "the server ended the statement (" + err.Message + ")\nRaise the role's statement_timeout, or ask for less at once.", exitFailed
	case "57P01", "57P02", "57P03":
		return "the server is shutting down or starting (" + err.Message + ")\nTry again in a while.", exitUnconnected
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", err.Message, err.Code), exitFailed
}

func isConnect(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect)
}

// isBroken tells a session that ended without a word. The driver's words for that hold the server's address.
func isBroken(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// describeConnect leaves out what the driver says of user, host and database.
func describeConnect(err error) string {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		if errors.Is(err, context.DeadlineExceeded) {
			return "no server answers in time at the address in the connection string\nCheck host, port and firewall."
		}
		return "no server answers at the address in the connection string, or not with TLS as it asks\nCheck host and port, sslmode, and that the server runs."
	}
	switch pgErr.Code {
	case "28P01", "28000":
		return "the server refuses this user or password\nCheck both in DATABASE_URL or --database, and the server's pg_hba.conf."
	case "3D000":
		return "there is no such database on this server\nCheck the name at the end of the URL, or create it with createdb."
	case "42501":
		return "the role may not connect to this database\nIn psql: GRANT CONNECT ON DATABASE ... TO ..."
	case "57P01", "57P02", "57P03":
		return "the server is shutting down or starting\nTry again in a while."
	case "53300":
		return "the server has no connection left\nTry again, or raise max_connections."
	}
	return fmt.Sprintf("the server refuses the connection (SQLSTATE %s)", pgErr.Code)
}
