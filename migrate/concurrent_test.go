package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/migrate"
)

func itoa(n uint16) string { return fmt.Sprint(n) }

// gate is a lock on which a migration waits until the test opens it.
const gate = 4711

const gated = "SELECT pg_catalog.pg_advisory_xact_lock(4711);\n"

func shutGate(t *testing.T, made *pgtest.DB) *pgx.Conn {
	t.Helper()
	conn := made.Connect(t)
	if _, err := conn.Exec(t.Context(), `SELECT pg_catalog.pg_advisory_lock($1::bigint)`, gate); err != nil {
		t.Fatal(err)
	}
	return conn
}

func openGate(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// eventually polls a fact about sessions until it holds.
func eventually(t *testing.T, made *pgtest.DB, fact string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for holds := false; !holds; <-tick.C {
		if err := made.Pool.QueryRow(ctx, fact, args...).Scan(&holds); err != nil {
			t.Fatalf("%s: %v", fact, err)
		}
	}
}

const (
	atGate = `SELECT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted
		AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))`
	waiting = `SELECT count(*) >= $1::integer FROM pg_catalog.pg_stat_activity
		WHERE datname = pg_catalog.current_database() AND query LIKE '%pg_try_advisory_xact_lock%' AND pid <> pg_catalog.pg_backend_pid()`
)

func start(ctx context.Context, made *pgtest.DB, opts ...migrate.Option) <-chan error {
	done := make(chan error, 1)
	go func() { done <- migrate.Up(ctx, made.URL, opts...) }()
	return done
}

func TestManyInstancesAtOnce(t *testing.T) {
	t.Parallel()
	made, alone := pgtest.New(t, pgtest.Empty()), pgtest.New(t, pgtest.Empty())
	var all []<-chan error
	for range 8 {
		all = append(all, start(t.Context(), made))
	}
	for _, done := range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	mustUp(t, alone)
	if diff := cmp.Diff(snapshot(t, alone), snapshot(t, made)); diff != "" {
		t.Errorf("the schema differs from what one instance makes (-one +many):\n%s", diff)
	}
}

// Building an index concurrently waits for every older snapshot: an instance
// that waits for its turn must hold none, or the two wait for each other.
func TestWaitingInstanceHoldsNoSnapshot(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	files := migrate.WithFiles(fstest.MapFS{
		"0001_table.sql": file("-- migrate:up\nCREATE TABLE public.t (n integer);\n" + gated + "-- migrate:down\n"),
		"0002_index.sql": file("-- migrate:up transaction:false\nCREATE INDEX CONCURRENTLY t_n ON public.t (n);\n-- migrate:down\n"),
	})
	key := shutGate(t, made)
	first := start(t.Context(), made, files)
	eventually(t, made, atGate)
	second := start(t.Context(), made, files)
	eventually(t, made, waiting, 2)
	openGate(t, key)
	for _, done := range []<-chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The lock's session is idle in its transaction while the files are applied.
func TestLockOutlivesIdleTimeouts(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty(), pgtest.Setting("idle_in_transaction_session_timeout", "300ms"))
	files := migrate.WithFiles(fstest.MapFS{
		"0001_wait.sql": file("-- migrate:up\n" + gated + "-- migrate:down\n"),
	})
	key := shutGate(t, made)
	first := start(t.Context(), made, files)
	eventually(t, made, atGate)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := migrate.Up(ctx, made.URL, files)
	var e *migrate.Error
	if !errors.As(err, &e) || e.Op != "lock" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second instance meanwhile: %v; want a deadline at the lock", err)
	}
	openGate(t, key)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestContextEndsARunningFile(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	files := migrate.WithFiles(fstest.MapFS{
		"0001_slow.sql": file("-- migrate:up\nCREATE TABLE public.t ();\n" + gated + "-- migrate:down\n"),
		"0002_next.sql": file("-- migrate:up\nCREATE TABLE public.u ();\n-- migrate:down\n"),
	})
	key := shutGate(t, made)
	ctx, cancel := context.WithCancel(t.Context())
	done := start(ctx, made, files)
	eventually(t, made, atGate)
	cancel()
	err := <-done
	var e *migrate.Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.File != "0001_slow.sql" {
		t.Errorf("error %v; want the cancellation, naming the file", err)
	}
	eventually(t, made, "SELECT NOT ("+atGate+")")
	openGate(t, key)
	if got := versions(t, made, migrate.DefaultTable); len(got) != 0 {
		t.Errorf("recorded as applied: %v", got)
	}
	if got := snapshot(t, made); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	mustUp(t, made, files)
}
