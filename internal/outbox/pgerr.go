package outbox

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// errorClass says what the loop does about a database error.
type errorClass int

const (
	// passing: the server is away, restarting, read-only or busy, or two sessions got into each other's way. Whatever has
	// no class of its own counts as passing too: waiting can be undone, giving up cannot.
	passing errorClass = iota
	// refused: the server will not have these very rows, now or ever.
	refused
	// fatal: wrong schema, privilege or password; repeating cannot help.
	fatal
)

// By SQLSTATE class: data and cardinality errors, broken constraints, and what triggers raise; then invalid authorization,
// catalog or schema name, and syntax or access rule.
var (
	refusedClasses = []string{"21", "22", "23", "2F", "38", "39", "44", "54", "P0"}
	fatalClasses   = []string{"28", "3D", "3F", "42"}
)

// A migration beside the worker changes the row type under a claim that waits for its lock, or under a prepared statement.
// Asked again the server plans anew.
var movingStates = []string{"42804", "0A000"}

// stateNoStatement says that a prepared statement is gone: somebody else has our session.
const stateNoStatement = "26000"

// classify sorts a database error by SQLSTATE, never by its text.
func classify(err error) errorClass {
	state := SQLState(err)
	switch {
	case errors.Is(err, ErrPooler), state == stateNoStatement:
		return fatal
	case len(state) < 2, slices.Contains(movingStates, state):
		return passing
	case slices.Contains(fatalClasses, state[:2]):
		return fatal
	case slices.Contains(refusedClasses, state[:2]):
		return refused
	}
	return passing
}

// ambiguous reports whether the statement may have committed although it failed.
func ambiguous(err error) bool {
	var connectErr *pgconn.ConnectError
	if errors.As(err, &connectErr) || pgconn.SafeToRetry(err) {
		return false
	}
	switch state := SQLState(err); {
	case state == "":
		return true
	case state == "57014" || len(state) < 2:
		return false
	default:
		// The server told the session to go (57P01 to 57P05, 08xxx): whether before or after the commit is unknown.
		return state[:2] == "57" || state[:2] == "08"
	}
}

// SQLState is empty for what is no answer of the server.
func SQLState(err error) string {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return ""
	}
	return pgErr.Code
}

// loggable is what of an error may stand in a log: where the server refuses a value its text may quote it.
func loggable(err error) string {
	if classify(err) == refused {
		return "SQLSTATE " + SQLState(err)
	}
	return err.Error()
}

// locked reports that a row was held by somebody else for longer than lock_timeout.
func locked(err error) bool { return SQLState(err) == "55P03" }
