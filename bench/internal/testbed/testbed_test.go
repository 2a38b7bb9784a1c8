package testbed_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/bench/internal/testbed"
)

var schema = testbed.Schema{Name: "one table", Apply: func(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "CREATE TABLE public.t (id integer PRIMARY KEY, v integer) WITH (fillfactor = 50)")
	return err
}}

func newDatabase(t *testing.T) *testbed.Database {
	t.Helper()
	bed, err := testbed.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Close)
	db, err := bed.Database(t.Context(), schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Drop)
	return db
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func usage(t *testing.T, db *testbed.Database, m *testbed.Meter) testbed.Usage {
	t.Helper()
	u, err := db.Usage(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUsageCountsWhatTheClientAndTheServerDid(t *testing.T) {
	db := newDatabase(t)
	var meter testbed.Meter
	before := usage(t, db, &meter)
	pool, err := db.Connect(t.Context(), 1, &meter)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // prepared the first time: a round trip more
		exec(t, pool, "INSERT INTO public.t SELECT (SELECT count(*) FROM public.t) + i, 0 FROM generate_series(1, 50) AS i")
	}
	var batch pgx.Batch
	batch.Queue("UPDATE public.t SET v = 1 WHERE id <= 10")
	batch.Queue("UPDATE public.t SET id = id + 1000 WHERE id <= 10")
	if err := pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	pool.Close()
	got := usage(t, db, &meter).PerEvent(before, 1)
	if got.WALBytes <= 0 || got.Bytes <= 0 {
		t.Errorf("no WAL or no pages were counted: %+v", got)
	}
	// The servers' own reads add transactions; ours are two inserts and one batch at least.
	if got.Transactions < 3 {
		t.Errorf("%v transactions, want 3 or more", got.Transactions)
	}
	got.WALBytes, got.Bytes, got.Transactions = 0, 0, 0
	want := testbed.Usage{Inserted: 100, Updated: 20, HOTUpdated: 10, Statements: 4, RoundTrips: got.RoundTrips}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMeterCountsAnAnswerAsARoundTrip(t *testing.T) {
	var meter testbed.Meter
	pool, err := newDatabase(t).Connect(t.Context(), 1, &meter)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	exec(t, pool, "SELECT 1")
	statements, roundTrips := meter.Counts()
	for range 10 {
		// The answer of 1 MB arrives in many packets.
		if _, err := pool.Exec(t.Context(), "SELECT repeat('x', 1000000)", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	more, further := meter.Counts()
	if diff := cmp.Diff([]int64{10, 10}, []int64{more - statements, further - roundTrips}); diff != "" {
		t.Errorf("statements and round trips of ten statements: %s", diff)
	}
}

func TestCPUClockSeesTheServerAtWork(t *testing.T) {
	db := newDatabase(t)
	clock, err := db.StartCPU(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, "SELECT count(*) FROM generate_series(1, 300000)")
	busy, err := clock.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if db.SessionCPU(1) == 0 {
		t.Log("not Linux, or not a server of this machine: processor time is not known")
		return
	}
	if busy.Server <= 0 {
		t.Errorf("the server computed for %v, want more than 0", busy.Server)
	}
}
