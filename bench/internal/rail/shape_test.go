package rail_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestShapes(t *testing.T) {
	const n = 300
	type facts struct{ Rows, Due, Aggregates, Shared int }
	want := map[string]facts{
		"fan-out: one event per aggregate":                     {n, n, n, 0},
		"deep: 100 events per aggregate":                       {n, n, 3, 0},
		"hot: all events of one aggregate":                     {n, n, 1, 0},
		"stuck heads: 100 deep behind a failed head due later": {n, n - 3, 3, 0},
		"outage: failed rows due later":                        {n, 0, n, 0},
		"scheduled: pending rows due later":                    {n, 0, n, 0},
		"rare: rows of types nobody here claims":               {n, n, n, 0},
		"history: processed rows":                              {n, 0, n, 0},
		"foreign: aggregates behind an unknown type":           {n, n, n / 3, 0},
		"same second: retries that come due at once":           {n, n, n, 0},
		"deep, written by one transaction":                     {n, n, 3, n - 3},
		"hot, written by one transaction":                      {n, n, 1, n - 1},
	}
	// Shared are the rows that came in one transaction with an older one of their aggregate.
	const read = `
SELECT count(*), count(*) FILTER (WHERE status IN ('pending', 'failed') AND available_at <= clock_timestamp()),
  count(DISTINCT aggregate_id), count(*) - count(DISTINCT (aggregate_id, xmin::text))
FROM public.outbox_events`
	for _, shape := range rail.Shapes {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			if _, err := shape.Load(t.Context(), db.Connect(t), n); err != nil {
				t.Fatal(err)
			}
			var got facts
			// What comes due in one second does so shortly after it was loaded.
			for deadline := time.Now().Add(time.Minute); got != want[shape.Name] && time.Now().Before(deadline); {
				if err := db.Pool.QueryRow(t.Context(), read).Scan(&got.Rows, &got.Due, &got.Aggregates, &got.Shared); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want[shape.Name], got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestZipfIsSkewedAndRepeatable(t *testing.T) {
	const n = 10_000
	count := map[string]int{}
	keys, again := rail.Zipf(1.1, 100), rail.Zipf(1.1, 100)
	for i := range n {
		key := keys(i)
		count[key.String()]++
		if key != again(i) {
			t.Fatal("two runs differ")
		}
	}
	if most := count[rail.OneEach(0).String()]; len(count) > 100 || most < n/10 {
		t.Errorf("%d aggregates, the busiest with %d of %d events; want 100 at most, and a tenth", len(count), most, n)
	}
}

func TestClaimAndAcknowledge(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := rail.Fill(t.Context(), db.Pool, 150, 100, rail.OneEach); err != nil {
		t.Fatal(err)
	}
	claimed, err := rail.Claim(t.Context(), db.Pool, rail.Types, 100)
	if err != nil || len(claimed.IDs) != 100 {
		t.Fatalf("claimed %d events, want 100 (%v)", len(claimed.IDs), err)
	}
	if n, err := rail.Acknowledge(t.Context(), db.Pool, claimed); err != nil || n != 100 {
		t.Errorf("acknowledged %d events, want 100 (%v)", n, err)
	}
	if n, err := rail.Unprocessed(t.Context(), db.Pool); err != nil || n != 50 {
		t.Errorf("%d unprocessed, want 50 (%v)", n, err)
	}
}
