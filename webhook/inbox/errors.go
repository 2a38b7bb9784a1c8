package inbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// ErrIgnored is Draft's word for a delivery that this application has no use for.
var ErrIgnored = errors.New("inbox: delivery ignored")

// RefusedError is Draft's word for a delivery that this application cannot use and that must not come again.
type RefusedError struct {
	Status int    // of the answer: 400 to 499, or 0 for 422
	Reason string // for the log; the sender does not see it. It must not quote the delivery
}

func (e *RefusedError) Error() string { return "inbox: delivery refused: " + e.Reason }

// Error is what kept a delivery from being recorded. Its text has no part of the delivery or of the connection string,
// provided that Draft's errors have none.
//
// Beside the cause it matches what package outbox has for it: [outbox.ErrRetryTransaction], [outbox.ErrNotMigrated],
// [outbox.ErrPermission], [outbox.ErrReadOnly] and, for a draft that cannot be written, [outbox.ErrInvalid].
type Error struct {
	Op  string // "draft", "record", "enqueue" or "transaction"
	Err error
}

func newError(op string, err error) *Error {
	var server *pgconn.PgError
	if errors.As(err, &server) && byState[server.Code] != nil && !errors.Is(err, byState[server.Code]) {
		err = fmt.Errorf("%w: %w", byState[server.Code], err)
	}
	return &Error{op, err}
}

// byState names the server's errors as package outbox does.
var byState = map[string]error{
	"42883": outbox.ErrNotMigrated, "42P01": outbox.ErrNotMigrated,
	"40001": outbox.ErrRetryTransaction, "40P01": outbox.ErrRetryTransaction, "55P03": outbox.ErrRetryTransaction,
	"25006": outbox.ErrReadOnly,
	"42501": outbox.ErrPermission,
}

func draftError(err error) error {
	var refused *RefusedError
	if errors.Is(err, ErrIgnored) || errors.As(err, &refused) {
		return err
	}
	return newError("draft", err)
}

func (e *Error) Error() string { return "inbox: " + e.Op + ": " + discreet(e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// discreet leaves out what some errors quote: the host, user and database of a failed connection, and the values that
// the server or a JSON decoder could not read.
func discreet(err error) string {
	var ours *Error
	var connect *pgconn.ConnectError
	var server *pgconn.PgError
	answered := errors.As(err, &server)
	switch {
	case errors.As(err, &ours):
		return ours.Error()
	case errors.As(err, &connect) && answered:
		return "the server refused the connection (SQLSTATE " + server.Code + ")"
	case errors.As(err, &connect):
		return "no connection to the server"
	case answered && strings.HasPrefix(server.Code, "22"):
		return "the server cannot take a value (SQLSTATE " + server.Code + ")"
	}
	if text := describeJSON(err); text != "" {
		return text
	}
	return err.Error()
}

// StatusCode is the HTTP status that answers an error of this package, or one of the transaction that Record was called
// in: 200 for none, what a [*RefusedError] says, 503 for a database or downstream that is away or busy, 500 for any other.
func StatusCode(err error) int {
	var refused *RefusedError
	switch {
	case err == nil, errors.Is(err, ErrIgnored):
		return http.StatusOK
	case errors.As(err, &refused) && refused.Status == 0:
		return http.StatusUnprocessableEntity
	case errors.As(err, &refused) && refused.Status >= 400 && refused.Status < 500:
		return refused.Status
	case refused == nil && isTemporary(err):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// outages are how the SQLSTATEs of a server begin that is away, busy or stopping: connection, read-only after a failover,
// transaction rollback, resources, object state (lock timeouts among them), operator intervention, system.
var outages = []string{"08", "25006", "40", "53", "55", "57", "58"}

func isTemporary(err error) bool {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return slices.ContainsFunc(outages, func(start string) bool { return strings.HasPrefix(server.Code, start) })
	}
	var ours *Error
	if errors.As(err, &ours) && ours.Op != "draft" {
		// The server has not answered, so it is away, unless nothing was sent to it.
		return !errors.Is(err, outbox.ErrInvalid)
	}
	var connect *pgconn.ConnectError
	var network *net.OpError
	return event.IsUnavailable(err) || errors.Is(err, context.Canceled) || errors.As(err, &connect) || errors.As(err, &network)
}
