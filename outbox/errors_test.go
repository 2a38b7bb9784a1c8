package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Every SQLSTATE of the table, as the driver brings it: what callers match, with the driver's error still in the chain.
func TestErrorsByState(t *testing.T) {
	t.Parallel()
	want := map[string]error{
		"42883": outbox.ErrNotMigrated, "42P01": outbox.ErrNotMigrated, "3F000": outbox.ErrNotMigrated, "42703": outbox.ErrNotMigrated,
		"40001": outbox.ErrRetryTransaction, "40P01": outbox.ErrRetryTransaction, "55P03": outbox.ErrRetryTransaction,
		"25006": outbox.ErrReadOnly, "42501": outbox.ErrPermission, "26000": outbox.ErrPooler,
	}
	if len(want) != len(outbox.ByState) {
		t.Errorf("the table has %d states, this test %d", len(outbox.ByState), len(want))
	}
	for state, target := range want {
		err := outbox.Translate("enqueue", fmt.Errorf("query: %w", &pgconn.PgError{Code: state, Message: "told"}))
		var driver *pgconn.PgError
		if !errors.Is(err, target) || !errors.As(err, &driver) || driver.Code != state || !strings.Contains(err.Error(), "enqueue") {
			t.Errorf("%s: %v", state, err)
		}
	}
	for _, other := range []error{&pgconn.PgError{Code: "57P01"}, context.DeadlineExceeded, errors.New("dial")} {
		if err := outbox.Translate("enqueue", other); !errors.Is(err, other) || errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("%v became %v", other, err)
		}
	}
	if err := outbox.Translate("enqueue", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

// A constraint names a field, and the row that broke it, which the server quotes, stays out of the chain.
func TestErrorsByConstraint(t *testing.T) {
	t.Parallel()
	for constraint, field := range outbox.ByConstraint {
		err := outbox.Translate("enqueue", &pgconn.PgError{Code: "23514", ConstraintName: constraint, Detail: "Failing row contains (hunter2)."})
		var invalid *event.InvalidError
		var driver *pgconn.PgError
		if !errors.As(err, &invalid) || invalid.Field != field || errors.As(err, &driver) {
			t.Errorf("%s: %v", constraint, err)
		}
	}
	r := newRig(t)
	for constraint := range outbox.ByConstraint {
		if !value[bool](r, `select exists (select from pg_constraint where conname = $1)`, constraint) {
			t.Errorf("the schema has no constraint %s", constraint)
		}
	}
}

// The same from a real server, where it can be provoked.
func TestErrorsOfARealServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	empty := pgtest.New(t, pgtest.Empty())
	var role = "weak_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	r.exec(`create role ` + role)
	defer r.exec(`drop role ` + role)
	in := func(first string) error {
		return pgx.BeginFunc(t.Context(), r.db.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), first); err != nil {
				return err
			}
			_, err := outbox.Enqueue(t.Context(), tx, draft(typeA, 1))
			return err
		})
	}
	_, unmigrated := outbox.Enqueue(t.Context(), empty.Pool, draft(typeA, 1))
	_, unexplained := outbox.Explain(t.Context(), empty.Pool, agg(1))
	holder, err := r.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Enqueue(t.Context(), holder, draft(typeA, 1)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want error }{
		"not migrated": {unmigrated, outbox.ErrNotMigrated},
		"the same":     {unexplained, outbox.ErrNotMigrated},
		"read only":    {in(`set transaction read only`), outbox.ErrReadOnly},
		"no right":     {in(`set local role ` + role), outbox.ErrPermission},
		"lock timeout": {in(`set local lock_timeout = '1ms'`), outbox.ErrRetryTransaction},
	} {
		if !errors.Is(c.got, c.want) || errors.Is(c.got, outbox.ErrInvalid) {
			t.Errorf("%s: %v", name, c.got)
		}
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// What jsonb refuses although it passed the checks names the payload, without quoting it: this database has no way to
// store a euro sign.
func TestPayloadBeyondTheEncoding(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := "latin1_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	r.exec(`create database ` + name + ` template template0 encoding latin1 lc_collate 'C' lc_ctype 'C'`)
	defer r.exec(`drop database ` + name + ` with (force)`)
	config := r.db.Pool.Config().ConnConfig
	config.Database = name
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), `create type outbox_enqueued as (event_id uuid, duplicate boolean, same_payload boolean);
		create function outbox_enqueue(p_event_types text[], p_idempotency_keys text[], p_aggregate_types text[], p_aggregate_ids uuid[],
			p_payloads text[], p_metadata text[], p_delays_seconds double precision[]) returns setof outbox_enqueued language sql
			as $$ select null::uuid, p::jsonb is null, true from unnest(p_payloads) p $$`)
	if err != nil {
		t.Fatal(err)
	}
	d := draft(typeA, 1)
	d.Payload = []byte(`"hunter2 \u20ac"`)
	_, err = outbox.Enqueue(t.Context(), conn, d)
	var invalid *event.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "Payload" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}
