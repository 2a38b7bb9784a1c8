package db_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// The contract's heading and line that a test covers stand in the names of the
// contract_*_test.go files' tests and subtests. Of "Where ours must be better", 1 and 2 are
// in order_test.go, 3 in plan_test.go and the benchmarks, 4 and 6 here and beside the
// functions they change, 5 in hostile_test.go, 7 beside the contract's function that each
// addition extends, and 8 where crashes and take-over are tested.

type columnInfo struct {
	Name, Type string
	NotNull    bool
	Default    string
}

func (r *rail) columns(table string) []columnInfo {
	r.Helper()
	rows, err := r.sql.Query(r.Context(), `select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type,
			a.attnotnull as not_null, coalesce(pg_get_expr(d.adbin, d.adrelid), '') as default
		from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
		where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`, table)
	if err != nil {
		r.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[columnInfo])
	if err != nil {
		r.Fatal(err)
	}
	return all
}

// Table outbox_events: the columns in their order, types, nullability and defaults.
func TestTableOutboxEventsColumns(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	want := []columnInfo{
		{"id", "uuid", true, "outbox_event_id()"},
		{"created_at", "timestamp with time zone", true, "clock_timestamp()"},
		{"available_at", "timestamp with time zone", true, "clock_timestamp()"},
		{"processed_at", "timestamp with time zone", false, ""},
		{"aggregate_type", "text", true, ""},
		{"aggregate_id", "uuid", true, ""},
		{"event_type", "text", true, ""},
		{"idempotency_key", "text", true, ""},
		{"status", "text", true, "'pending'::text"},
		{"attempts", "integer", true, "0"},
		{"payload", "jsonb", true, ""},
		{"error", "text", false, ""},
		{"metadata", "jsonb", true, "'{}'::jsonb"},
	}
	got := r.columns("public.outbox_events")
	if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	for _, extra := range got[len(want):] {
		if extra.NotNull && extra.Default == "" {
			t.Errorf("extra column %s must be filled without the producer's help", extra.Name)
		}
	}
}

// Table outbox_dormant_event_types: columns, and that it ships empty.
func TestTableDormantEventTypes(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	want := []columnInfo{
		{"event_type", "text", true, ""},
		{"owner", "text", true, ""},
		{"reason", "text", true, ""},
		{"created_at", "timestamp with time zone", true, "now()"},
		{"updated_at", "timestamp with time zone", true, "now()"},
	}
	if diff := cmp.Diff(want, r.columns("public.outbox_dormant_event_types")); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if n := value[int](r, `select count(*) from public.outbox_dormant_event_types`); n != 0 {
		t.Errorf("ships with %d rows", n)
	}
	r.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('a', 'team', 'not yet')`)
	refused := r.fails(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('a', 'team', 'again')`)
	if refused.Code != "23505" || refused.ConstraintName != "outbox_dormant_event_types_pkey" {
		t.Errorf("a second row for a type: %v", refused)
	}
}

// violation is an assignment that breaks one constraint.
type violation struct{ column, expression, constraint string }

var violations = map[string][]violation{
	"outbox_events": {
		{"aggregate_type", "''", "outbox_events_aggregate_type_nonempty_check"},
		{"aggregate_type", "'  '", "outbox_events_aggregate_type_nonempty_check"},
		{"event_type", "' '", "outbox_events_event_type_nonempty_check"},
		{"event_type", "''", "outbox_events_event_type_nonempty_check"},
		{"idempotency_key", "''", "outbox_events_idempotency_key_nonempty_check"},
		{"idempotency_key", "'   '", "outbox_events_idempotency_key_nonempty_check"},
		{"status", "'done'", "outbox_events_status_check"},
		{"status", "''", "outbox_events_status_check"},
		{"attempts", "-1", "outbox_events_attempts_check"},
		{"idempotency_key", "'taken'", "outbox_events_event_type_idempotency_key_key"},
		{"id", "(select id from public.outbox_events)", "outbox_events_pkey"},
		// Where ours must be better, 4 and 6.
		{"metadata", "'null'", "outbox_events_metadata_object_check"},
		{"metadata", "'[]'", "outbox_events_metadata_object_check"},
		{"metadata", `'"text"'`, "outbox_events_metadata_object_check"},
		{"metadata", "'1'", "outbox_events_metadata_object_check"},
		{"created_at", "'infinity'", "outbox_events_created_at_finite_check"},
		{"created_at", "'-infinity'", "outbox_events_created_at_finite_check"},
		{"available_at", "'infinity'", "outbox_events_available_at_finite_check"},
		{"available_at", "'-infinity'", "outbox_events_available_at_finite_check"},
		{"event_type", "repeat('t', 256)", "outbox_events_event_type_length_check"},
		{"event_type", "repeat('ü', 128)", "outbox_events_event_type_length_check"},
		{"aggregate_type", "repeat('t', 256)", "outbox_events_aggregate_type_length_check"},
		{"idempotency_key", "repeat('k', 1025)", "outbox_events_idempotency_key_length_check"},
		{"idempotency_key", "repeat('k', 6400)", "outbox_events_idempotency_key_length_check"},
		{"idempotency_key", randomText, "outbox_events_idempotency_key_length_check"},
	},
	"outbox_dormant_event_types": {
		{"event_type", "' '", "outbox_dormant_event_types_event_type_nonempty_check"},
		{"owner", "''", "outbox_dormant_event_types_owner_nonempty_check"},
		{"reason", "'  '", "outbox_dormant_event_types_reason_nonempty_check"},
	},
}

// randomText is 6,400 characters that no compression makes fit an index.
const randomText = `(select string_agg(md5(i::text), '') from generate_series(1, 200) i)`

var defaults = map[string]map[string]string{
	"outbox_events": {"aggregate_type": "'order'", "aggregate_id": "'00000000-0000-0000-0000-000000000001'", "event_type": "'a'",
		"idempotency_key": "gen_random_uuid()::text", "payload": "'{}'"},
	"outbox_dormant_event_types": {"event_type": "'a'", "owner": "'team'", "reason": "'not yet'"},
}

// insertWith is an INSERT of the defaults with some of them overwritten.
func insertWith(table string, overwrite map[string]string) string {
	var names, values []string
	all := map[string]string{}
	for _, part := range []map[string]string{defaults[table], overwrite} {
		for name, expression := range part {
			all[name] = expression
		}
	}
	for name, expression := range all {
		names, values = append(names, name), append(values, expression)
	}
	return fmt.Sprintf("insert into public.%s (%s) values (%s)", table, strings.Join(names, ", "), strings.Join(values, ", "))
}

// Every rule of the tables by the name of its constraint; and what just keeps it.
func TestTableConstraints(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(insertWith("outbox_events", map[string]string{"idempotency_key": "'taken'"}))
	for table, list := range violations {
		for _, v := range list {
			refused := r.fails(insertWith(table, map[string]string{v.column: v.expression}))
			if refused.ConstraintName != v.constraint || refused.Code[:2] != "23" {
				t.Errorf("%s = %s: refused by %q (%s), want %q", v.column, v.expression, refused.ConstraintName, refused.Code, v.constraint)
			}
		}
	}
	for _, fits := range []map[string]string{
		{"idempotency_key": "'taken'", "event_type": "'b'"},
		{"event_type": "repeat('t', 255)", "aggregate_type": "repeat('t', 255)", "idempotency_key": "repeat('k', 1024)"},
		{"created_at": "'1970-01-01'", "available_at": "'9999-12-31'", "status": "'discarded'", "attempts": "2147483647"},
		{"payload": "'null'", "metadata": `'{"claimToken": 1}'`, "error": "repeat('e', 10000)"},
	} {
		r.exec(insertWith("outbox_events", fits))
	}
}

// Table outbox_events, column null = no.
func TestTableNotNull(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for table := range defaults {
		for _, c := range r.columns("public." + table) {
			if !c.NotNull {
				continue
			}
			refused := r.fails(insertWith(table, map[string]string{c.Name: "null"}))
			if refused.Code != "23502" || refused.ColumnName != c.Name {
				t.Errorf("%s.%s null: %v", table, c.Name, refused)
			}
		}
	}
}

// Table outbox_events: plain INSERT names contract columns only, defaults are the time
// of insert, and explicit values of all of them are kept as given.
func TestTablePlainInsert(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(insertWith("outbox_events", nil))
	got := r.events(`select * from public.outbox_events`)[0]
	now := value[time.Time](r, `select clock_timestamp()`)
	for name, at := range map[string]time.Time{"created_at": got.CreatedAt, "available_at": got.AvailableAt} {
		if age := now.Sub(at); age < 0 || age > 30*time.Second {
			t.Errorf("%s lies %v back", name, age)
		}
	}
	if got.Status != "pending" || got.Attempts != 0 || got.ProcessedAt != nil || got.Error != nil || len(got.Metadata) != 0 {
		t.Errorf("defaults: %+v", got)
	}
	r.exec(`insert into public.outbox_events (id, created_at, available_at, processed_at, aggregate_type, aggregate_id, event_type,
			idempotency_key, status, attempts, payload, error, metadata)
		values ('00000000-0000-0000-0000-0000000000ff', '2001-01-01', '2002-01-01', '2003-01-01', 'x', $1, 'b', 'k', 'processed', 3, '[1]', 'e', '{"m": 1}')`, agg(7))
	kept := value[string](r, `select concat_ws(' ', id, extract(year from created_at), extract(year from available_at), extract(year from processed_at),
			aggregate_type, aggregate_id, event_type, idempotency_key, status, attempts, payload, error, metadata)
		from public.outbox_events where event_type = 'b'`)
	want := `00000000-0000-0000-0000-0000000000ff 2001 2002 2003 x ` + agg(7).String() + ` b k processed 3 [1] e {"m": 1}`
	if kept != want {
		t.Errorf("kept %s\nwant %s", kept, want)
	}
}

// Where ours must be better, 1: the default ids grow.
func TestTableIDsGrow(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`create table public.made (n serial, id uuid default public.outbox_event_id());
		insert into public.made (n) select i from generate_series(1, 5000) i`)
	disorder := value[int](r, `select count(*) from (select id <= lag(id) over (order by n) as wrong from public.made) x where wrong`)
	odd := value[int](r, `select count(*) from public.made where id::text !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$'`)
	if disorder != 0 || odd != 0 {
		t.Errorf("%d ids do not grow, %d are no UUIDs of version 7", disorder, odd)
	}
}
