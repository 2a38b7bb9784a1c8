package faults

import (
	"context"
	"errors"
	"fmt"
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

// load is what an event carries: its place among the events of its aggregate, and what its handler does.
type load struct {
	Seq int `json:"seq"`
	// Kill ends the process. Hang waits for the end of the handler's context.
	Kill bool `json:"kill,omitempty"`
	Hang bool `json:"hang,omitempty"`
}

// evidence is what handlers leave: one row for each time that one has begun.
const evidence = `create table public.deliveries (
	id bigint generated always as identity primary key, delivery uuid not null unique, event_id uuid not null,
	aggregate_id uuid not null, seq integer not null, attempt integer not null, worker text not null, beside integer not null,
	at timestamptz not null default clock_timestamp());
	create index on public.deliveries (event_id);
	create table public.killed (worker text primary key, at timestamptz not null default clock_timestamp());
	create table public.effects (id bigint generated always as identity)`

// child is a worker process. It ends cleanly on SIGTERM.
func child() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pooling, err := pgxpool.ParseConfig(os.Getenv(envURL))
	if err != nil {
		return err
	}
	at := step(os.Getenv(envStep))
	pooling.ConnConfig.Tracer = executioner{at}
	pool, err := pgxpool.NewWithConfig(ctx, pooling)
	if err != nil {
		return err
	}
	defer pool.Close()
	concurrency, err := strconv.Atoi(os.Getenv(envSlow))
	if err != nil {
		return err
	}
	w := &witness{pool: pool, name: os.Getenv(envName), at: at}
	if c, ok := calls[at]; ok {
		return w.call(ctx, c)
	}
	config := outbox.Config{Concurrency: concurrency, PollInterval: 100 * time.Millisecond, Lease: leases[at], StopTimeout: patiences[at],
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	worker, err := outbox.NewWorker(pool, w.handlers(), config)
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

// What differs from the defaults: an extension comes after a third of the lease, and a handler is interrupted at once.
var (
	leases    = map[step]time.Duration{extend: 30 * time.Second}
	patiences = map[step]time.Duration{release: time.Millisecond}
)

// handlers are of the kind that is the child's own, if it has one.
func (w *witness) handlers() *outbox.Handlers {
	var handlers outbox.Handlers
	of := map[step]event.Definition[load]{never: happened, watching: unused}
	switch kind, ok := kinds[w.at]; {
	case ok:
		of = map[step]event.Definition[load]{w.at: kind}
	case w.at == heir:
		of = kinds
	default:
		of = map[step]event.Definition[load]{w.at: of[w.at]}
	}
	for kind, definition := range of {
		if kind == handler {
			outbox.HandleTx(&handlers, definition, w.handleTx)
		} else {
			outbox.Handle(&handlers, definition, w.handle)
		}
	}
	return &handlers
}

func (w *witness) handle(ctx context.Context, e event.Event[load]) error {
	beside := w.busy.Add(1)
	defer w.busy.Add(-1)
	if err := w.testify(ctx, e, int(beside)); err != nil {
		return err
	}
	if w.at == start || e.Payload.Kill {
		die()
	}
	if w.at == extend || w.at == release || e.Payload.Hang {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// handleTx leaves an effect that is only there with the acknowledgement.
func (w *witness) handleTx(ctx context.Context, tx pgx.Tx, e event.Event[load]) error {
	if err := w.testify(ctx, e, 1); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, leaveEffect)
	if w.at == handler {
		die()
	}
	return err
}

// call dies between an application's or operator's call and the commit.
func (w *witness) call(ctx context.Context, c call) error {
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	if answer, err := c.do(ctx, tx, draft(1, load{Seq: 1})); err != nil || answer != c.first {
		return fmt.Errorf("answered %s, %w", answer, err)
	}
	die()
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
	switch x.at {
	case ack, extend, release:
		if strings.Contains(data.SQL, phaseOf(x.at).at+"(") {
			die()
		}
	}
	return context.WithValue(ctx, executioner{}, data.SQL)
}

func (x executioner) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	sql, _ := ctx.Value(executioner{}).(string)
	switch {
	case x.at == claim && strings.Contains(sql, phaseOf(claim).at+"(") && data.CommandTag.RowsAffected() > 0,
		x.at == acked && strings.Contains(sql, phaseOf(ack).at+"("):
		die()
	}
}

// die is kill -9: nothing is closed, nothing is said.
func die() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

var errTimeout = errors.New("waited in vain")
