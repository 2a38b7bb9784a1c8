package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/sample"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// Case D9: heldSnapshot measures what happens while some session keeps an old snapshot, as a
// report, a dump or a forgotten BEGIN does: nothing that was dead after it can be
// cleared away.
func heldSnapshot(ctx context.Context, env Env) error {
	n := env.Size.Jobs
	env.Report.Heading("A snapshot held open")
	env.Report.Note("Acknowledged events per second of portions of %d, and the median claim of %d after each portion, in ms: before a snapshot is taken, "+
		"while it is held, and after it has been released and the table vacuumed.", n, batch)
	var rows [][]any
	for _, c := range []snapshotContender{
		{queue.Rail{}.String(), queue.Rail{}.Open, true},
		{rivers[3].String(), rivers[3].Open, false},
	} {
		portions, err := c.run(ctx, env)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		for _, p := range portions {
			rows = append(rows, []any{c.name, p.snapshot, p.rate, p.rate / portions[0].rate, p.claim})
		}
	}
	env.Report.Table([]string{"contender", "snapshot", "events/s", ": before", "claim of 100"}, rows...)
	return nil
}

// A portion is what was reached in one; claim is nil where nothing can be claimed by hand.
type portion struct {
	snapshot string
	rate     float64
	claim    any
}

type snapshotContender struct {
	name   string
	open   opener
	claims bool // a claim can be measured alone
}

func (c snapshotContender) run(ctx context.Context, env Env) (portions []portion, err error) {
	q, err := c.open(ctx, env.Bed, queue.Options{})
	if err != nil {
		return nil, err
	}
	defer q.Close()
	work := func(snapshot string, times int) error {
		for range times {
			p, err := c.work(ctx, env, q, snapshot, len(portions))
			if err != nil {
				return err
			}
			portions = append(portions, p)
		}
		return nil
	}
	if err := work("none", 1); err != nil {
		return nil, err
	}
	release, err := holdSnapshot(ctx, q.Database())
	if err != nil {
		return nil, err
	}
	defer release()
	if err := work("held", env.Size.HeldPortions); err != nil {
		return nil, err
	}
	release()
	if err := q.Database().Rest(ctx); err != nil {
		return nil, err
	}
	return portions, work("released", 1)
}

// work inserts and works off the next portion. It does not vacuum in between:
// autovacuum is on, as on any server.
func (c snapshotContender) work(ctx context.Context, env Env, q queue.Queue, snapshot string, before int) (portion, error) {
	n, claimed := env.Size.Jobs, probes*batch
	p := portion{snapshot: snapshot}
	from := before * (n + claimed)
	for i := 0; i < n; i += batchSize {
		if err := q.Insert(ctx, from+i, min(batchSize, n-i)); err != nil {
			return p, err
		}
	}
	effort, err := queue.Drain(ctx, q, n, func(int) {})
	if err != nil {
		return p, err
	}
	p.rate = effort.PerSecond()
	if c.claims {
		p.claim, err = claimByHand(ctx, q, from+n, claimed)
	}
	env.Log("snapshot %s, %s: %.0f/s, claim %v ms", snapshot, c.name, p.rate, p.claim)
	return p, err
}

// claimByHand inserts n events and measures the claims that hand them out, in ms.
func claimByHand(ctx context.Context, q queue.Queue, from, n int) (float64, error) {
	if err := q.Insert(ctx, from, n); err != nil {
		return 0, err
	}
	conn, err := q.Database().Pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	var taken sample.Set
	for range n / batch {
		start := time.Now()
		claimed, err := rail.Claim(ctx, conn, []string{queue.EventType}, batch)
		if err != nil {
			return 0, err
		}
		taken.Add(time.Since(start))
		if _, err := rail.Acknowledge(ctx, conn, claimed); err != nil {
			return 0, err
		}
	}
	return taken.Median(), nil
}

// holdSnapshot opens a transaction that sees the database as it is now, and returns
// what ends it; ending it twice is fine.
func holdSnapshot(ctx context.Context, db *testbed.Database) (release func(), err error) {
	tx, err := db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, err
	}
	// The first statement takes the snapshot, COMMIT or ROLLBACK lets it go.
	if _, err := tx.Exec(ctx, `SELECT FROM pg_catalog.pg_class LIMIT 1`); err != nil {
		return nil, err
	}
	return func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }, nil
}
