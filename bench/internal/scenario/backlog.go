package scenario

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/sample"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

const (
	batch    = 100 // rows asked for per claim, the contract's most
	calmRuns = 10  // a backlog has settled when this many claims in a row are cheap
	probes   = 10  // claims on fresh rows that say what cheap is, and warm up
)

// A backlog is n rows of a shape and what claims cost there.
type backlog struct {
	rows    int
	insert  time.Duration // writing the rows
	settle  claims        // until it had settled
	settled bool
	unswept claims // of fresh rows, right after that
	warm    claims // of fresh rows, once the table has been vacuumed too

	db   *testbed.Database
	conn *pgx.Conn
}

// claims are what some calls took, in ms, what of it the server computed, and how
// many rows they handed out.
type claims struct {
	sample.Set
	cpu  sample.Set
	rows int
}

// newBacklog loads n rows, lets them settle until claims take at most cheap
// milliseconds, and puts the fresh rows behind them.
func newBacklog(ctx context.Context, env Env, shape rail.Shape, n int, cheap float64) (*backlog, error) {
	db, err := env.Bed.Database(ctx, rail.Schema)
	if err != nil {
		return nil, err
	}
	b := &backlog{rows: n, db: db}
	if err := b.prepare(ctx, env.Size, shape, cheap); err != nil {
		db.Drop()
		return nil, err
	}
	return b, nil
}

func (b *backlog) prepare(ctx context.Context, size Size, shape rail.Shape, cheap float64) error {
	pooled, err := b.db.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	b.conn = pooled.Hijack() // ends with the database
	if err := b.warmSession(ctx); err != nil {
		return err
	}
	if b.insert, err = shape.Load(ctx, b.conn, b.rows); err != nil {
		return err
	}
	if err := b.db.Rest(ctx); err != nil {
		return err
	}
	if err := b.settleDown(ctx, cheap, size.Settle); err != nil {
		return err
	}
	if err := rail.LoadFresh(ctx, b.conn, (2*probes+size.Calls)*batch); err != nil {
		return err
	}
	for range probes {
		if _, err := b.claim(ctx, &b.unswept); err != nil {
			return err
		}
	}
	return b.db.Rest(ctx)
}

// warmSession has the session plan the functions, which it does once: worker
// sessions live for hours.
func (b *backlog) warmSession(ctx context.Context) error {
	for range 8 {
		if _, err := rail.Claim(ctx, b.conn, []string{"none"}, batch); err != nil {
			return err
		}
	}
	return nil
}

func (b *backlog) settleDown(ctx context.Context, cheap float64, limit time.Duration) error {
	calm := 0
	for start := time.Now(); calm < calmRuns && time.Since(start) < limit; {
		ms, err := b.claim(ctx, &b.settle)
		if err != nil {
			return err
		}
		calm++
		if ms > cheap {
			calm = 0
		}
	}
	b.settled = calm == calmRuns
	return nil
}

// probe claims some of the fresh rows and returns what that took in the middle.
func (b *backlog) probe(ctx context.Context) (float64, error) {
	var taken claims
	for range probes {
		if _, err := b.claim(ctx, &taken); err != nil {
			return 0, err
		}
	}
	return taken.Median(), nil
}

func (b *backlog) claim(ctx context.Context, to *claims) (ms float64, err error) {
	pid := b.conn.PgConn().PID()
	used, start := b.db.SessionCPU(pid), time.Now()
	claimed, err := rail.Claim(ctx, b.conn, rail.Types, batch)
	ms = sample.Millis(time.Since(start))
	to.Set = append(to.Set, ms)
	to.cpu.Add(b.db.SessionCPU(pid) - used)
	to.rows += len(claimed.IDs)
	return ms, err
}

func (c claims) rowsPerCall() float64 { return float64(c.rows) / float64(len(c.Set)) }

func (b *backlog) insertPerRow() float64 { return 1000 * sample.Millis(b.insert) / float64(b.rows) }

// settlePerRow is the time of settling beyond that of as many warm claims, in µs.
func (b *backlog) settlePerRow() float64 {
	beyond := b.settle.Sum() - float64(len(b.settle.Set))*b.warm.Median()
	return 1000 * max(0, beyond) / float64(b.rows)
}
