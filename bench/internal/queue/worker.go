package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/testbed"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Rail is the rail as applications use it: outbox.Enqueue and outbox.Worker.
type Rail struct{ Config outbox.Config }

func (r Rail) String() string {
	if r.Config.Concurrency != 0 {
		return fmt.Sprintf("rail, Concurrency %d", r.Config.Concurrency)
	}
	return "rail, default configuration"
}

// EventType is that of all events of [Rail].
const EventType = "mail.queued"

var definition = event.MustDefine[payload](EventType)

type railQueue struct {
	config outbox.Config
	keys   rail.Keys
	db     *testbed.Database
	pool   *pgxpool.Pool
}

// Open makes a database.
func (r Rail) Open(ctx context.Context, bed *testbed.Bed, o Options) (Queue, error) {
	db, err := bed.Database(ctx, rail.Schema)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	pool, err := db.Connect(ctx, o.Conns, o.Meter)
	if err != nil {
		db.Drop()
		return nil, err
	}
	return &railQueue{r.Config, o.Keys, db, pool}, nil
}

func (q *railQueue) Insert(ctx context.Context, from, n int) error {
	drafts := make([]event.Draft, n)
	for i := range drafts {
		number := from + i
		drafts[i] = definition.New("mail", q.keys(number), fmt.Sprintf("mail-%d", number), newPayload(number))
	}
	_, err := outbox.Enqueue(ctx, q.pool, drafts...)
	return err
}

func (q *railQueue) Start(ctx context.Context, handle func(n int), fail func(error)) (func() error, error) {
	worker, err := newWorker(q.pool, q.config, handle)
	if err != nil {
		return nil, err
	}
	go func() {
		if err := worker.Run(ctx); err != nil {
			fail(err)
		}
	}()
	return func() error { return worker.Stop(context.WithoutCancel(ctx)) }, nil
}

func newWorker(pool *pgxpool.Pool, config outbox.Config, handle func(n int)) (*outbox.Worker, error) {
	var handlers outbox.Handlers
	outbox.Handle(&handlers, definition, func(_ context.Context, e event.Event[payload]) error {
		handle(e.Payload.N)
		return nil
	})
	return outbox.NewWorker(pool, &handlers, config)
}

// Run works off the database at url until ctx ends: a worker process.
func (r Rail) Run(ctx context.Context, url string, handle func(n int)) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	worker, err := newWorker(pool, r.Config, handle)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func (q *railQueue) Unfinished(ctx context.Context) (int, error) {
	return rail.Unprocessed(ctx, q.db.Pool)
}

func (q *railQueue) Database() *testbed.Database { return q.db }

func (q *railQueue) Disconnect() { q.pool.Reset() }

func (q *railQueue) Close() {
	q.pool.Close()
	q.db.Drop()
}
