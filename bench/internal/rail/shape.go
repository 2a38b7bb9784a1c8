package rail

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Shape is a backlog as queues meet it in production. Its rows are written by
// plain INSERT naming only the contract's columns; the SQL expressions below see
// the row's number as i.
type Shape struct {
	Name      string
	Aggregate string // which rows share an aggregate
	Type      string // empty: one of Types
	Status    string // empty: pending
	Attempts  string // empty: 0
	Available string // empty: due for an hour
	// Depth is how many rows an aggregate has; 0 means all rows are of one. Each is
	// written by a transaction of its own, as separate requests would: only then
	// does nothing but the claim find out what stands behind what.
	Depth int
	// Together writes everything in one transaction instead, as an import would.
	Together bool
	// Due rows come due all at once, some time after they were written.
	Due bool
}

// Shapes are the ten of the claim's cost, and two of them as an import writes them.
var Shapes = []Shape{
	{Name: "fan-out: one event per aggregate", Aggregate: "i", Depth: 1},
	{Name: "deep: 100 events per aggregate", Aggregate: "i / 100", Depth: 100},
	{Name: "hot: all events of one aggregate", Aggregate: "0"},
	{Name: "stuck heads: 100 deep behind a failed head due later", Aggregate: "i / 100", Depth: 100,
		Type: "'t0'", Status: headFailed, Available: headLater},
	{Name: "outage: failed rows due later", Aggregate: "i", Depth: 1,
		Status: "'failed'", Attempts: "3", Available: later},
	{Name: "scheduled: pending rows due later", Aggregate: "i", Depth: 1, Available: later},
	{Name: "rare: rows of types nobody here claims", Aggregate: "i", Depth: 1, Type: "'other' || i % 4"},
	ProcessedRows,
	{Name: "foreign: aggregates behind an unknown type", Aggregate: "i / 3", Depth: 3,
		Type: "case i % 3 when 0 then 'foreign' else 't' || i % 4 end"},
	{Name: "same second: retries that come due at once", Aggregate: "i", Depth: 1,
		Status: "'failed'", Attempts: "3", Due: true},
	{Name: "deep, written by one transaction", Aggregate: "i / 100", Depth: 100, Together: true},
	{Name: "hot, written by one transaction", Aggregate: "0", Together: true},
}

// ProcessedRows are history.
var ProcessedRows = Shape{Name: "history: processed rows", Aggregate: "i", Depth: 1, Status: "'processed'", Attempts: "1"}

const (
	later      = "now() + interval '1 hour'"
	headFailed = "case i % 100 when 0 then 'failed' else 'pending' end"
	headLater  = "now() + case i % 100 when 0 then interval '1 hour' else interval '-1 hour' end"
)

// transactions is over how many the n rows are spread, so that no two rows of an
// aggregate share one.
func (s Shape) transactions(n int) int {
	switch {
	case s.Together:
		return 1
	case s.Depth == 0:
		return n
	}
	return s.Depth
}

// template is a procedure body, as only those may commit in between. Transaction t
// of many writes every many-th row: of each aggregate one.
const template = `
DO $load$
DECLARE
  v_start constant timestamptz := clock_timestamp();
BEGIN
  FOR t IN 0 .. :many - 1 LOOP
    INSERT INTO public.outbox_events
      (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, status, attempts, payload)
    SELECT v_start - interval '2 hours' + i * interval '1 microsecond', :available, 'order', md5('shape' || :aggregate)::uuid,
      :type, 'shape' || i, :status, :attempts, :payload
    FROM generate_series(t, :n - 1, :many) AS i;
    COMMIT;
  END LOOP;
END $load$`

// Load writes n rows of the shape and returns when those that come due are due. It
// reports the time that writing took. Its commits are not durable, which makes
// them cheap: the cost of settling is compared with it.
func (s Shape) Load(ctx context.Context, conn *pgx.Conn, n int) (time.Duration, error) {
	available := orElse(s.Available, "now() - interval '1 hour'")
	wait := time.Duration(0)
	if s.Due {
		wait = 500*time.Millisecond + time.Duration(n)*60*time.Microsecond
		available = "v_start + interval '" + strconv.FormatInt(wait.Milliseconds(), 10) + " ms'"
	}
	sql := strings.NewReplacer(
		":many", strconv.Itoa(s.transactions(n)), ":n", strconv.Itoa(n),
		":available", available, ":aggregate", "("+s.Aggregate+")", ":type", orElse(s.Type, "'t' || i % 4"),
		":status", orElse(s.Status, "'pending'"), ":attempts", orElse(s.Attempts, "0"), ":payload", "'"+Payload+"'",
	).Replace(template)
	start := time.Now()
	if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, sql); err != nil {
		return 0, err
	}
	taken := time.Since(start)
	_, err := conn.Exec(ctx, "SET synchronous_commit = on")
	select {
	case <-time.After(time.Until(start.Add(wait))):
	case <-ctx.Done():
		err = ctx.Err()
	}
	return taken, err
}

// LoadFresh writes n claimable rows, younger than all others and of an aggregate each.
func LoadFresh(ctx context.Context, conn Conn, n int) error {
	_, err := conn.Exec(ctx, `
INSERT INTO public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
SELECT 'order', md5('fresh' || i)::uuid, 't' || i % 4, 'fresh' || i, $2::jsonb
FROM generate_series(1, $1::integer) AS i`, n, Payload)
	return err
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
