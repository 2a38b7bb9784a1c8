package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/openlup/pgrail/bench/internal/testbed"
)

// River is the peer: a job queue on Postgres in Go, with no order among jobs.
type River struct {
	// MaxWorkers and FetchCooldown are the settings that its speed depends on most.
	// Its default cooldown is 100 ms.
	MaxWorkers    int
	FetchCooldown time.Duration
}

func (r River) String() string {
	return fmt.Sprintf("River, MaxWorkers %d, FetchCooldown %v", r.MaxWorkers, r.FetchCooldown)
}

var riverSchema = testbed.Schema{Name: "river", Apply: func(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: silent})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}}

var silent = slog.New(slog.DiscardHandler)

type job struct{ payload }

func (job) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[job]
	handle func(n int)
}

func (w *riverWorker) Work(_ context.Context, j *river.Job[job]) error {
	w.handle(j.Args.N)
	return nil
}

// Timeout -1 spares each job the timer of a deadline.
func (*riverWorker) Timeout(*river.Job[job]) time.Duration { return -1 }

type riverQueue struct {
	settings River
	db       *testbed.Database
	pool     *pgxpool.Pool
	inserter *river.Client[pgx.Tx]
}

// Open makes a database and a client that inserts.
func (r River) Open(ctx context.Context, bed *testbed.Bed, o Options) (Queue, error) {
	db, err := bed.Database(ctx, riverSchema)
	if err != nil {
		return nil, err
	}
	q := &riverQueue{settings: r, db: db}
	if q.pool, err = db.Connect(ctx, o.withDefaults().Conns, o.Meter); err == nil {
		q.inserter, err = river.NewClient(riverpgxv5.New(q.pool), &river.Config{Logger: silent})
	}
	if err != nil {
		db.Drop()
		return nil, err
	}
	return q, nil
}

func (q *riverQueue) Insert(ctx context.Context, from, n int) error {
	if n == 1 {
		_, err := q.inserter.Insert(ctx, job{newPayload(from)}, nil)
		return err
	}
	params := make([]river.InsertManyParams, n)
	for i := range params {
		params[i].Args = job{newPayload(from + i)}
	}
	_, err := q.inserter.InsertManyFast(ctx, params)
	return err
}

func (q *riverQueue) Start(ctx context.Context, handle func(n int), _ func(error)) (func() error, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handle: handle})
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Logger:        silent,
		Workers:       workers,
		FetchCooldown: q.settings.FetchCooldown,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: q.settings.MaxWorkers}},
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return client.Stop(context.WithoutCancel(ctx)) }, nil
}

func (q *riverQueue) Unfinished(ctx context.Context) (int, error) {
	var n int
	err := q.db.Pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state <> 'completed'`).Scan(&n)
	return n, err
}

func (q *riverQueue) Database() *testbed.Database { return q.db }

func (q *riverQueue) Disconnect() { q.pool.Reset() }

func (q *riverQueue) Close() {
	q.pool.Close()
	q.db.Drop()
}
