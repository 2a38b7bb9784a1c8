package faults

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// What a child is told.
const (
	envURL  = "PGRAIL_FAULTS_URL"
	envName = "PGRAIL_FAULTS_NAME"
	envStep = "PGRAIL_FAULTS_STEP"
	envSlow = "PGRAIL_FAULTS_SLOW" // how many events may be handled at once
)

// A step is where a child kills itself, the first time it gets there.
type step string

const (
	never   step = ""
	claimed step = "claimed" // the claim has committed, no handler has begun
	started step = "started" // the handler has begun
	handled step = "handled" // its effect has committed, the acknowledgement has not been sent
	acked   step = "acked"   // the acknowledgement has committed, the worker has not learnt of it
	// watching handles nothing that these tests write: it only sees others die.
	watching step = "watching"
)

// load is what an event carries: its place among the events of its aggregate, and what its handler does.
type load struct {
	Seq int `json:"seq"`
	// Kill ends the process. Hang waits for the end of the handler's context.
	Kill bool `json:"kill,omitempty"`
	Hang bool `json:"hang,omitempty"`
}

var (
	happened = event.MustDefine[load]("happened")
	unused   = event.MustDefine[load]("unused")
)

// evidence is what handlers leave: one row for each time that one has begun.
const evidence = `create table public.deliveries (
	id bigint generated always as identity primary key, delivery uuid not null unique, event_id uuid not null,
	aggregate_id uuid not null, seq integer not null, attempt integer not null, worker text not null, beside integer not null,
	at timestamptz not null default clock_timestamp());
	create table public.killed (worker text primary key, at timestamptz not null default clock_timestamp())`

// child is a worker process. It ends cleanly on SIGTERM.
func child() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := pgxpool.ParseConfig(os.Getenv(envURL))
	if err != nil {
		return err
	}
	at := step(os.Getenv(envStep))
	config.ConnConfig.Tracer = executioner{at}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	concurrency, err := strconv.Atoi(os.Getenv(envSlow))
	if err != nil {
		return err
	}
	var handlers outbox.Handlers
	of := happened
	if at == watching {
		of = unused
	}
	outbox.Handle(&handlers, of, (&witness{pool: pool, name: os.Getenv(envName), at: at}).handle)
	worker, err := outbox.NewWorker(pool, &handlers, outbox.Config{Concurrency: concurrency, PollInterval: 100 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// witness is the handler.
type witness struct {
	pool *pgxpool.Pool
	name string
	at   step
	busy atomic.Int32
}

func (w *witness) handle(ctx context.Context, e event.Event[load]) error {
	beside := w.busy.Add(1)
	defer w.busy.Add(-1)
	if err := w.testify(ctx, e, int(beside)); err != nil {
		return err
	}
	if w.at == started || e.Payload.Kill {
		die()
	}
	if e.Payload.Hang {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// testify goes on until the evidence is there, through any outage; what it repeats is written once.
func (w *witness) testify(ctx context.Context, e event.Event[load], beside int) error {
	delivery := uuid.New()
	for {
		_, err := w.pool.Exec(ctx, `insert into public.deliveries (delivery, event_id, aggregate_id, seq, attempt, worker, beside)
			values ($1::uuid, $2::uuid, $3::uuid, $4::integer, $5::integer, $6::text, $7::integer) on conflict (delivery) do nothing`,
			delivery, e.ID, e.AggregateID, e.Payload.Seq, e.Attempt, w.name, beside)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// executioner looks at the worker's statements and kills the process at its step.
type executioner struct{ at step }

func (x executioner) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if x.at == handled && strings.Contains(data.SQL, "outbox_mark_processed_many(") {
		die()
	}
	return context.WithValue(ctx, executioner{}, data.SQL)
}

func (x executioner) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	sql, _ := ctx.Value(executioner{}).(string)
	switch {
	case x.at == claimed && strings.Contains(sql, "outbox_claim_events(") && data.CommandTag.RowsAffected() > 0,
		x.at == acked && strings.Contains(sql, "outbox_mark_processed_many("):
		die()
	}
}

// die is kill -9: nothing is closed, nothing is said.
func die() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

var errTimeout = errors.New("waited in vain")
