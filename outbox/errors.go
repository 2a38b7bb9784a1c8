package outbox

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	internal "github.com/openlup/pgrail/internal/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// What went wrong, for errors.Is. Errors of this package never hold a payload or a connection string.
var (
	// ErrInvalid: the input or configuration is wrong; [*ConfigError] and [*event.InvalidError] name the field.
	ErrInvalid = event.ErrInvalid
	// ErrNotMigrated: the database lacks the rail's tables or functions, or has older ones.
	ErrNotMigrated = errors.New("outbox: the database is not migrated")
	// ErrRetryTransaction: a serialization failure, deadlock or lock timeout; run the whole transaction again.
	ErrRetryTransaction = errors.New("outbox: transaction must be retried")
	// ErrReadOnly: the server does not take writes, as a standby or after a failover.
	ErrReadOnly = errors.New("outbox: database is read-only")
	// ErrPermission: the role lacks a privilege.
	ErrPermission = errors.New("outbox: permission denied")
	// ErrPooler: the pool's mode of pgx relies on a session that lasts, and a pooler hands out another one for each
	// transaction. Set default_query_exec_mode to exec or simple_protocol, in the connection string or its configuration.
	ErrPooler = internal.ErrPooler
	// ErrStopping is the cause of a handler's context when the worker stops.
	ErrStopping = internal.ErrStopping
	// ErrLeaseLost is the cause of a handler's context when another worker may take the event over.
	ErrLeaseLost = internal.ErrLeaseLost
	// ErrStarted: a worker runs once, and does one thing at a time; make a new one.
	ErrStarted = errors.New("outbox: the worker has been started before, or is draining")
)

// ConfigError says which field of a configuration, or which argument of a function, is out of range.
type ConfigError struct {
	// Field is the Go name of the field or argument.
	Field string
	// Value is what it was, or a word for it where the value does not belong in a log.
	Value any
	// Allowed says what would be right.
	Allowed string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("outbox: %s is %v (allowed: %s)", e.Field, e.Value, e.Allowed)
}

// Is makes every ConfigError match [ErrInvalid].
func (e *ConfigError) Is(target error) bool { return target == ErrInvalid }

// StopError is what [Worker.Run] and [Worker.Stop] return when something was left behind. The events come back
// when their leases end.
type StopError struct {
	// Running are the events whose handlers had not returned.
	Running []uuid.UUID
	// Unsettled are the events whose handlers had returned but whose outcome could not be stored.
	Unsettled []uuid.UUID
}

func (e *StopError) Error() string { return (*internal.StopError)(e).Error() }

// byState maps SQLSTATEs to what callers can match; the driver's error stays in the chain.
var byState = map[string]error{
	"42883": ErrNotMigrated, "42P01": ErrNotMigrated, "3F000": ErrNotMigrated, "42703": ErrNotMigrated,
	"40001": ErrRetryTransaction, "40P01": ErrRetryTransaction, "55P03": ErrRetryTransaction,
	"25006": ErrReadOnly,
	"26000": ErrPooler,
	"42501": ErrPermission,
}

// byConstraint names the field behind each constraint that a caller can break.
var byConstraint = map[string]string{
	"outbox_events_aggregate_type_nonempty_check":          "AggregateType",
	"outbox_events_aggregate_type_length_check":            "AggregateType",
	"outbox_events_event_type_nonempty_check":              "EventType",
	"outbox_events_event_type_length_check":                "EventType",
	"outbox_events_idempotency_key_nonempty_check":         "IdempotencyKey",
	"outbox_events_idempotency_key_length_check":           "IdempotencyKey",
	"outbox_events_metadata_object_check":                  "Metadata",
	"outbox_event_policies_max_attempts_check":             "MaxAttempts",
	"outbox_event_policies_max_snoozes_check":              "MaxSnoozes",
	"outbox_event_policies_on_discard_check":               "OnDiscard",
	"outbox_event_policies_event_type_nonempty_check":      "EventType",
	"outbox_dormant_event_types_event_type_nonempty_check": "EventType",
	"outbox_dormant_event_types_owner_nonempty_check":      "Owner",
	"outbox_dormant_event_types_reason_nonempty_check":     "Reason",
}

// translate is the one place where a database error becomes one of this package's.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return fmt.Errorf("outbox: %s: %w", doing, err)
	}
	if field, ok := byConstraint[pgErr.ConstraintName]; ok {
		return fmt.Errorf("outbox: %s: %w", doing, &event.InvalidError{
			Field: field, Problem: "breaks " + pgErr.ConstraintName, Allowed: "see the constraint",
		})
	}
	if known, ok := byState[pgErr.Code]; ok {
		return fmt.Errorf("outbox: %s: %w: %w", doing, known, err)
	}
	return fmt.Errorf("outbox: %s: %w", doing, err)
}

// translatePayload also knows the ways in which a payload can be JSON and still no jsonb, where the checks before the SQL
// cannot tell: in databases that are not encoded in UTF-8. The server's text would quote the payload.
func translatePayload(doing string, err error) error {
	switch state := internal.SQLState(err); state {
	case "22P02", "22P05", "22003", "22021":
		return fmt.Errorf("outbox: %s: %w", doing, &event.InvalidError{
			Field: "Payload", Problem: "is refused by jsonb (SQLSTATE " + state + ")", Allowed: "what jsonb can hold",
		})
	}
	return translate(doing, err)
}
