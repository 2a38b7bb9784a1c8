package db_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// querier is what a pool, a connection and a transaction have in common.
type querier interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
}

// A rail runs statements for a test and ends the test when one fails that should not.
type rail struct {
	testing.TB
	db  *pgtest.DB
	sql querier
}

func newRail(t testing.TB, opts ...pgtest.Option) *rail {
	t.Helper()
	d := pgtest.New(t, opts...)
	return &rail{t, d, d.Pool}
}

func (r *rail) exec(sql string, args ...any) int64 {
	r.Helper()
	tag, err := r.sql.Exec(context.Background(), sql, args...)
	if err != nil {
		r.Fatalf("%s\n%v", sql, err)
	}
	return tag.RowsAffected()
}

// fails runs a statement that the server has to refuse.
func (r *rail) fails(sql string, args ...any) *pgconn.PgError {
	r.Helper()
	_, err := r.sql.Exec(context.Background(), sql, args...)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		r.Fatalf("%s\ngot %v, want an error of the server", sql, err)
	}
	return refused
}

// column reads the only column of a statement's rows.
func column[T any](r *rail, sql string, args ...any) []T {
	r.Helper()
	rows, err := r.sql.Query(context.Background(), sql, args...)
	if err == nil {
		var all []T
		if all, err = pgx.CollectRows(rows, pgx.RowTo[T]); err == nil {
			return all
		}
	}
	r.Fatalf("%s\n%v", sql, err)
	return nil
}

// value reads the only column of a statement's only row.
func value[T any](r *rail, sql string, args ...any) T {
	r.Helper()
	all := column[T](r, sql, args...)
	if len(all) != 1 {
		r.Fatalf("%s\ngave %d rows, want 1", sql, len(all))
	}
	return all[0]
}

// An event is a row of outbox_events with the contract's columns and the rail's own.
type event struct {
	ID             uuid.UUID
	CreatedAt      time.Time
	AvailableAt    time.Time
	ProcessedAt    *time.Time
	AggregateType  string
	AggregateID    uuid.UUID
	EventType      string
	IdempotencyKey string
	Status         string
	Attempts       int
	Payload        any
	Error          *string
	Metadata       map[string]any
	Lane           *string
	BlockedBy      *string
	Waited         bool
	HeldBy         *uuid.UUID
}

// eventColumns are named, as the contract asks of its callers: the rail may have others.
const eventColumns = `id, created_at, available_at, processed_at, aggregate_type, aggregate_id, event_type, idempotency_key, status,
	attempts, payload, error, metadata, lane, blocked_by, waited, held_by`

func (e event) token() string {
	token, _ := e.Metadata["claimToken"].(string)
	return token
}

func (r *rail) events(sql string, args ...any) []event {
	r.Helper()
	sql = strings.Replace(sql, "select *", "select "+eventColumns, 1)
	rows, err := r.sql.Query(context.Background(), sql, args...)
	if err == nil {
		var all []event
		if all, err = pgx.CollectRows(rows, pgx.RowToStructByName[event]); err == nil {
			return all
		}
	}
	r.Fatalf("%s\n%v", sql, err)
	return nil
}

func (r *rail) event(id uuid.UUID) event {
	r.Helper()
	found := r.events(`select * from public.outbox_events where id = $1`, id)
	if len(found) != 1 {
		r.Fatalf("event %s: found %d", id, len(found))
	}
	return found[0]
}

// A row is an event as a producer writes it by plain INSERT. What is left out gets
// a value under which the event can be claimed at once.
type row struct {
	Type     string        // "a"
	Agg      int           // which aggregate of type "order"
	Key      string        // random
	Status   string        // "pending"
	Attempts int           //
	Age      time.Duration // how long ago it was created; rows of equal age are ordered by id
	Due      time.Duration // from now on
	Error    *string       //
	Metadata string        // "{}"
}

const insertRow = `insert into public.outbox_events as e
	(created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, status, attempts, payload, error, metadata)
	values (clock_timestamp() - $1::interval, clock_timestamp() + $2::interval, 'order', $3, $4, $5, $6, $7, '{"n": 1}', $8, $9)
	returning e.id`

func (r *rail) insert(w row) uuid.UUID {
	r.Helper()
	if w.Key == "" {
		w.Key = uuid.NewString()
	}
	return value[uuid.UUID](r, insertRow, w.Age, w.Due, agg(w.Agg), orElse(w.Type, "a"), w.Key,
		orElse(w.Status, "pending"), w.Attempts, w.Error, orElse(w.Metadata, "{}"))
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// agg is the id of the nth aggregate.
func agg(n int) uuid.UUID { return uuid.UUID{14: byte(n >> 8), 15: byte(n)} }

// claim is the contract's claim of up to 100 events.
func (r *rail) claim(types ...string) []event {
	r.Helper()
	return r.events(`select * from public.outbox_claim_batch($1, p_batch_size => 100)`, types)
}

// claimOne expects exactly one event to come.
func (r *rail) claimOne(types ...string) event {
	r.Helper()
	got := r.claim(types...)
	if len(got) != 1 {
		r.Fatalf("claimed %d events of %v, want 1", len(got), types)
	}
	return got[0]
}

func (r *rail) ack(e event) bool {
	r.Helper()
	return value[bool](r, `select public.outbox_mark_processed($1, $2)`, e.ID, e.token())
}

// ackAll acknowledges in one statement and returns how many were held.
func (r *rail) ackAll(held []event) int {
	r.Helper()
	return value[int](r, `select count(*)::integer from public.outbox_mark_processed_many($1, $2) where outcome = 'processed'`,
		ids(held), tokens(held))
}

func ids(events []event) []uuid.UUID {
	list := make([]uuid.UUID, len(events))
	for i, e := range events {
		list[i] = e.ID
	}
	return list
}

func tokens(events []event) []string {
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = e.token()
	}
	return list
}

// sound fails the test unless every mark of the rail agrees with the rows.
func (r *rail) sound() {
	r.Helper()
	if found := r.findings(); len(found) > 0 {
		r.Errorf("outbox_check() finds:\n%s", strings.Join(found, "\n"))
	}
}

func (r *rail) findings() []string {
	r.Helper()
	return column[string](r, `select c.problem || ' ' || coalesce(c.event_id::text, '') from public.outbox_check() c
		union all select 'leased in lane ' || e.lane || ' ' || e.id from public.outbox_events e
		where e.status = 'processing' and e.available_at > clock_timestamp() and e.lane not in ('held', 'ready')`)
}
