package outboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestRail holds a store against the SQL contract of the rail, one subtest for each rule. It uses the contract's tables and
// functions alone: outbox_events, outbox_dormant_event_types, outbox_claim_batch, outbox_mark_processed, outbox_mark_failed
// and outbox_release_unprocessed. The function is asked once per rule for a database in which neither of the tables has a row.
func TestRail(t *testing.T, newDatabase func(t *testing.T) *pgxpool.Pool) {
	for _, r := range contract() {
		t.Run(r.name, func(t *testing.T) {
			if err := r.broken(t.Context(), newDatabase(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// rule is one sentence of the contract.
type rule struct {
	name string
	try  func(*store)
}

func contract() (all []rule) {
	for _, some := range [][]rule{tableRules, claimRules, blockedRules, settleRules, failRules} {
		all = append(all, some...)
	}
	return all
}

// broken says what was seen instead, or nil if the rule holds.
func (r rule) broken(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := &store{ctx: ctx, pool: pool}
	func() {
		defer func() {
			// What is no stop of ours is a mistake of ours.
			if cause := recover(); cause != nil && cause != any(stop{}) {
				panic(cause)
			}
		}()
		r.try(s)
	}()
	return errors.Join(s.seen...)
}

// stop ends a rule that cannot go on.
type stop struct{}

// store is what a rule asks, and where it notes what is wrong.
type store struct {
	ctx  context.Context
	pool *pgxpool.Pool
	seen []error
}

func (s *store) errorf(format string, args ...any) {
	s.seen = append(s.seen, fmt.Errorf(format, args...))
}

func (s *store) fatalf(format string, args ...any) {
	s.errorf(format, args...)
	panic(stop{})
}

// want notes a difference between two values that can be compared.
func want[T comparable](s *store, what string, want, got T) {
	if want != got {
		s.errorf("%s: %v, want %v", what, got, want)
	}
}

// value reads the only value of a statement.
func value[T any](s *store, sql string, args ...any) (v T) {
	if err := s.pool.QueryRow(s.ctx, sql, args...).Scan(&v); err != nil {
		s.fatalf("%s: %w", sql, err)
	}
	return v
}

func (s *store) exec(sql string, args ...any) {
	if _, err := s.pool.Exec(s.ctx, sql, args...); err != nil {
		s.fatalf("%s: %w", sql, err)
	}
}

// refused expects a statement to be refused with this SQLSTATE and this message or constraint.
func (s *store) refused(state, by, sql string, args ...any) {
	_, err := s.pool.Exec(s.ctx, sql, args...)
	var refusal *pgconn.PgError
	switch {
	case !errors.As(err, &refusal):
		s.errorf("%s %v: error %v, want SQLSTATE %s of %s", sql, args, err, state, by)
	case refusal.Code != state || refusal.Message != by && refusal.ConstraintName != by:
		s.errorf("%s %v: SQLSTATE %s of %s%s, want %s of %s", sql, args, refusal.Code, refusal.ConstraintName, refusal.Message, state, by)
	}
}

// seed is an event as a producer or operator writes it by plain INSERT. What is left out has a value with which the event can
// be claimed at once.
type seed struct {
	Type     string        // "a"
	Agg      byte          // which aggregate of type "order"
	Status   string        // "pending"
	Attempts int           //
	Age      time.Duration // how long ago it was created
	Due      time.Duration // from now on
	Error    *string       //
	Metadata string        // {}
}

const plant = `insert into public.outbox_events
	(created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, status, attempts, payload, error, metadata)
	values (clock_timestamp() - make_interval(secs => $1::double precision), clock_timestamp() + make_interval(secs => $2::double precision),
	'order', $3::uuid, $4::text, gen_random_uuid()::text, $5::text, $6::integer, '{}', $7::text, $8::jsonb) returning id`

func (s *store) plant(e seed) uuid.UUID {
	text := func(given, otherwise string) string {
		if given == "" {
			return otherwise
		}
		return given
	}
	return value[uuid.UUID](s, plant, e.Age.Seconds(), e.Due.Seconds(), uuid.UUID{15: e.Agg}, text(e.Type, "a"),
		text(e.Status, "pending"), e.Attempts, e.Error, text(e.Metadata, "{}"))
}

// row is an event as the table or a claim shows it.
type row struct {
	ID          uuid.UUID
	Status      string
	Attempts    int
	ProcessedAt *time.Time
	Error       *string
	Metadata    json.RawMessage
	// DueIn is in seconds, negative for the past.
	DueIn float64
}

const columns = `id, status, attempts, processed_at, error, metadata, date_part('epoch', available_at - clock_timestamp()) as due_in`

func (s *store) rows(from string, args ...any) []row {
	sql := "select " + columns + " from " + from
	rows, err := s.pool.Query(s.ctx, sql, args...)
	var all []row
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByName[row])
	}
	if err != nil {
		s.fatalf("%s: %w", sql, err)
	}
	return all
}

// claim calls outbox_claim_batch with arguments in SQL.
func (s *store) claim(arguments string) []row {
	return s.rows("public.outbox_claim_batch(" + arguments + ")")
}

func (s *store) row(id uuid.UUID) row {
	found := s.rows("public.outbox_events where id = $1::uuid", id)
	if len(found) != 1 {
		s.fatalf("%d rows of id %s, want 1", len(found), id)
	}
	return found[0]
}

// held plants an event and claims it.
func (s *store) held(e seed) row {
	id := s.plant(e)
	got := s.claim("array['a']")
	if len(got) != 1 || got[0].ID != id {
		s.fatalf("a claim brings %d events, want the only one there is", len(got))
	}
	return got[0]
}

// meta reads a value of the metadata.
func (r row) meta(key string) any {
	var metadata map[string]any
	if json.Unmarshal(r.Metadata, &metadata) != nil {
		return nil
	}
	return metadata[key]
}

func (r row) token() string {
	token, _ := r.meta("claimToken").(string)
	return token
}

// text is the error of a row, "null" for none.
func (r row) text() string {
	if r.Error == nil {
		return "null"
	}
	return *r.Error
}

// claimed expects a claim with these arguments to bring these events, in any order.
func (s *store) claimed(arguments string, ids ...uuid.UUID) {
	got := map[uuid.UUID]bool{}
	for _, r := range s.claim(arguments) {
		got[r.ID] = true
	}
	want(s, "a claim of "+arguments+": events", len(ids), len(got))
	for i, id := range ids {
		if !got[id] {
			s.errorf("a claim of %s lacks event %d of %d", arguments, i+1, len(ids))
		}
	}
}

// within expects a number of seconds between two bounds; what a busy machine adds to a moment is allowed for.
func (s *store) within(what string, least, most, got float64) {
	if got < least-slack || got > most+slack {
		s.errorf("%s: %.1f seconds, want %g to %g", what, got, least, most)
	}
}

const slack = 10
