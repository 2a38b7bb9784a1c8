package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/catalogue"
)

// ErrNothingApplied is matched by Down's error on a database without any of the
// files.
var ErrNothingApplied = errors.New("migrate: nothing is applied")

// A ConfigError tells which argument of a call is wrong. It never carries the
// argument's value.
type ConfigError struct {
	Field   string // "database URL", "table" or "logger"
	Problem string // what is allowed
}

func (e *ConfigError) Error() string { return "migrate: " + e.Field + " " + e.Problem }

// An Error tells what went wrong in the database. Its text has no part of the
// connection string.
type Error struct {
	Op       string // "connect", "lock", "check", "apply" or "roll back"
	File     string // the migration at fault, if it came to one
	SQLState string // the server's code, if it answered
	Err      error  // the cause: a *pgconn.PgError, a *pgconn.ConnectError, a *catalogue.DriftError, the context's
}

// newError puts the context's end first, as what it tore down is noise.
func newError(ctx context.Context, op, file string, err error) *Error {
	e := &Error{Op: op, File: file, Err: err}
	var drift *catalogue.DriftError
	if errors.As(err, &drift) {
		e.Op, e.File = "check", drift.File
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		e.Err = fmt.Errorf("%w: %w", cause, err)
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		e.SQLState = pgErr.Code
	}
	return e
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("migrate: " + e.Op)
	if e.File != "" {
		b.WriteString(" " + e.File)
	}
	return b.String() + ": " + e.cause()
}

func (e *Error) Unwrap() error { return e.Err }

// cause leaves out what a connection error says of user, host and database.
func (e *Error) cause() string {
	var pgErr *pgconn.PgError
	var conn *pgconn.ConnectError
	switch {
	case errors.As(e.Err, &conn) && errors.As(e.Err, &pgErr):
		return fmt.Sprintf("the server refused the connection (SQLSTATE %s)", pgErr.Code)
	case errors.As(e.Err, &conn):
		return "no connection to the server"
	}
	return e.Err.Error()
}

// progress turns dbmate's lines into log records and remembers the file at work,
// which dbmate's errors do not name.
type progress struct {
	log  *slog.Logger
	file string
}

func (p *progress) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if verb, file, ok := strings.Cut(text, ": "); ok && (verb == "Applying" || verb == "Rolling back") {
		p.file = file
		p.log.Info("migrate: "+strings.ToLower(verb), "file", file)
	}
	return len(line), nil
}
