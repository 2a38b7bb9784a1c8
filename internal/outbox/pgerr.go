package outbox

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// errorClass says what the loop does about a database error.
type errorClass int

const (
	// transient: the same call may succeed at once (serialization, deadlock, lock or statement timeout).
	transient errorClass = iota
	// outage: the server is away, restarting or read-only; wait and connect anew.
	outage
	// fatal: wrong schema, privilege or password; repeating cannot help.
	fatal
)

// fatalClasses are the SQLSTATE classes that a retry cannot cure: invalid authorization, catalog or schema
// name, syntax or access rule, feature not supported, data exceptions and broken constraints.
var fatalClasses = []string{"28", "3D", "3F", "42", "0A", "22", "23"}

// classify sorts a database error by SQLSTATE, never by its text.
func classify(err error) errorClass {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return outage
	}
	switch pgErr.Code {
	case "40001", "40P01", "55P03", "57014":
		return transient
	}
	if len(pgErr.Code) >= 2 && slices.Contains(fatalClasses, pgErr.Code[:2]) {
		return fatal
	}
	return outage
}

// ambiguous reports whether the statement may have committed although it failed.
func ambiguous(err error) bool {
	var pgErr *pgconn.PgError
	var connectErr *pgconn.ConnectError
	switch {
	case errors.As(err, &connectErr), pgconn.SafeToRetry(err):
		return false
	case errors.As(err, &pgErr):
		// The server told the session to go (57P01..57P03): whether before or after the commit is unknown.
		return len(pgErr.Code) >= 2 && (pgErr.Code[:2] == "57" && pgErr.Code != "57014" || pgErr.Code[:2] == "08")
	default:
		return !errors.Is(err, context.Canceled)
	}
}
