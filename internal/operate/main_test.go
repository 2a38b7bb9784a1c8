package operate_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A box is a test's database with short ways to use it.
type box struct {
	*testing.T
	db  *pgtest.DB
	sql *pgxpool.Pool
}

func newBox(t *testing.T, opts ...pgtest.Option) *box {
	t.Helper()
	d := pgtest.New(t, opts...)
	return &box{t, d, d.Pool}
}

func (b *box) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.sql.Exec(b.Context(), sql, args...); err != nil {
		b.Fatalf("%s\n%v", sql, err)
	}
}

// column reads the only column of a statement's rows.
func column[T any](b *box, sql string, args ...any) []T {
	b.Helper()
	rows, err := b.sql.Query(b.Context(), sql, args...)
	if err != nil {
		b.Fatalf("%s\n%v", sql, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		b.Fatalf("%s\n%v", sql, err)
	}
	return all
}

func value[T any](b *box, sql string, args ...any) T {
	b.Helper()
	all := column[T](b, sql, args...)
	if len(all) != 1 {
		b.Fatalf("%s\ngave %d rows, want 1", sql, len(all))
	}
	return all[0]
}

// id is a recognisable one.
func id(n byte) uuid.UUID { return uuid.UUID{15: n} }

// insert writes event n of an aggregate, written so many minutes ago and due since then.
func (b *box) insert(n, agg byte, eventType string, minutes int) uuid.UUID {
	b.Helper()
	b.exec(`insert into public.outbox_events (id, created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		values ($1, clock_timestamp() - make_interval(mins => $2), clock_timestamp() - make_interval(mins => $2), 'order', $3, $4, gen_random_uuid(), '{}')`,
		id(n), minutes, id(agg), eventType)
	return id(n)
}

// claim hands out what can be had of a type, and returns the tokens by event.
func (b *box) claim(eventType string, known ...string) map[uuid.UUID]string {
	b.Helper()
	rows, err := b.sql.Query(b.Context(), `select id, metadata ->> 'claimToken' from public.outbox_claim_batch(array[$1::text], $2::text[])`, eventType, known)
	if err != nil {
		b.Fatal(err)
	}
	tokens := map[uuid.UUID]string{}
	var claimed uuid.UUID
	var token string
	if _, err := pgx.ForEachRow(rows, []any{&claimed, &token}, func() error { tokens[claimed] = token; return nil }); err != nil {
		b.Fatal(err)
	}
	return tokens
}

// sound fails the test unless every mark of the rail agrees with the rows.
func (b *box) sound() {
	b.Helper()
	if found := column[string](b, `select problem || ' ' || coalesce(event_id::text, '') from public.outbox_check()`); len(found) > 0 {
		b.Errorf("outbox_check() finds:\n%s", strings.Join(found, "\n"))
	}
}

// login makes a role for this test and returns its name and a pool of its own sessions.
func (b *box) login(kinds ...string) (string, *pgxpool.Pool) {
	b.Helper()
	name, password := "pgrail_"+strings.ToLower(rand.Text()[:12]), rand.Text()
	b.exec("CREATE ROLE " + name + " LOGIN PASSWORD '" + password + "'")
	b.Cleanup(func() {
		if _, err := b.sql.Exec(context.Background(), "DROP OWNED BY "+name+"; DROP ROLE "+name); err != nil {
			b.Error(err)
		}
	})
	for _, kind := range kinds {
		b.exec(`select public.outbox_grant($1, $2::text::regrole)`, kind, name)
	}
	u, err := url.Parse(b.db.URL)
	if err != nil {
		b.Fatal(err)
	}
	u.User = url.UserPassword(name, password)
	pool, err := pgxpool.New(b.Context(), u.String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return name, pool
}

// as is the same box in another role.
func (b *box) as(pool *pgxpool.Pool) *box { return &box{b.T, b.db, pool} }
