package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// Functions is the rail without its worker: each connection claims a batch and
// acknowledges it, over and over. It tells the database's share of the time.
type Functions struct{ Batch, Conns int }

func (f Functions) String() string {
	return fmt.Sprintf("rail's SQL functions, %d × %d", f.Conns, f.Batch)
}

// Drain fills a database with n events and returns what working them off took.
func (f Functions) Drain(ctx context.Context, bed *testbed.Bed, n int) (Effort, error) {
	db, err := bed.Database(ctx, rail.Schema)
	if err != nil {
		return Effort{}, err
	}
	defer db.Drop()
	if err := rail.Fill(ctx, db.Pool, n, 5000, rail.OneEach); err != nil {
		return Effort{}, err
	}
	if err := db.Rest(ctx); err != nil {
		return Effort{}, err
	}
	effort, err := Measure(ctx, db, n, func() error {
		return parallel(ctx, db.Pool, f.Conns, f.work)
	})
	if err != nil {
		return Effort{}, err
	}
	if left, err := rail.Unprocessed(ctx, db.Pool); err != nil || left > 0 {
		return Effort{}, errors.Join(err, fmt.Errorf("%d events left", left))
	}
	return effort, nil
}

// work goes on until nothing is left to claim.
func (f Functions) work(ctx context.Context, conn rail.Conn) error {
	for {
		claimed, err := rail.ClaimWide(ctx, conn, rail.Types, f.Batch)
		if err != nil || len(claimed.IDs) == 0 {
			return err
		}
		if ended, err := rail.Acknowledge(ctx, conn, claimed); err != nil || ended != len(claimed.IDs) {
			return errors.Join(err, fmt.Errorf("%d of %d acknowledged", ended, len(claimed.IDs)))
		}
	}
}

// parallel runs work on n connections at once and returns what went wrong.
func parallel(ctx context.Context, pool *pgxpool.Pool, n int, work func(ctx context.Context, conn rail.Conn) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			errs[i] = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return work(ctx, conn) })
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
