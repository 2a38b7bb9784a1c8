package outbox

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Case D1: what each SQLSTATE means for the loop.
func TestD1_Classes(t *testing.T) {
	t.Parallel()
	for class, states := range map[errorClass][]string{
		passing: {"40001", "40P01", "55P03", "57014", "25006", "57P01", "57P02", "57P03", "57P05", "08000", "08003", "08006", "53300", "53100",
			"58030", "XX000", "0A000", "42804", "25P02", "", "?"},
		refused: {"22000", "22P02", "22021", "23505", "23514", "P0001", "54000", "21000", "44000", "38000", "39000", "2F000"},
		fatal:   {"42501", "42883", "42P01", "42P05", "28000", "28P01", "3D000", "3F000", "26000"},
	} {
		for _, state := range states {
			if got := classify(fmt.Errorf("call: %w", &pgconn.PgError{Code: state})); got != class {
				t.Errorf("%q is %v, want %v", state, got, class)
			}
		}
	}
	for _, err := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, context.Canceled, &pgconn.ConnectError{}} {
		if got := classify(err); got != passing {
			t.Errorf("%v is %v", err, got)
		}
	}
}

func TestAmbiguousErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "57P01"}, true}, {&pgconn.PgError{Code: "57P05"}, true}, {&pgconn.PgError{Code: "08006"}, true},
		{&pgconn.PgError{Code: "57014"}, false}, {&pgconn.PgError{Code: "40001"}, false}, {&pgconn.PgError{Code: "42P01"}, false}, {&pgconn.PgError{}, true},
		{&pgconn.PgError{Code: "?"}, false},
		{io.ErrUnexpectedEOF, true}, {fmt.Errorf("read: %w", context.DeadlineExceeded), true}, {context.Canceled, true},
		{&pgconn.ConnectError{}, false},
	} {
		if got := ambiguous(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A server's answer about a value may quote it; about anything else it says what to do.
func TestLoggableErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"SQLSTATE 22P05":                          fmt.Errorf("ack: %w", &pgconn.PgError{Code: "22P05", Message: "hunter2"}),
		"SQLSTATE P0001":                          &pgconn.PgError{Code: "P0001", Message: "hunter2"},
		": permission denied (SQLSTATE 42501)":    &pgconn.PgError{Code: "42501", Message: "permission denied"},
		": too many connections (SQLSTATE 53300)": &pgconn.PgError{Code: "53300", Message: "too many connections"},
		"EOF": io.EOF,
	} {
		if got := loggable(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
