package outboxtest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Rail is a test's hand on the rail in one database, which has to be migrated and should be the test's own. Whatever goes wrong
// ends the test at once.
type Rail struct {
	t      testing.TB
	pool   *pgxpool.Pool
	worker *outbox.Worker
	types  []string
}

// New returns a rail whose events go to the given handlers, under the configuration that the application has. What the worker
// would log goes to the test's log, unless the configuration has a logger.
func New(t testing.TB, pool *pgxpool.Pool, handlers *outbox.Handlers, cfg outbox.Config) *Rail {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	worker, err := outbox.NewWorker(pool, handlers, cfg)
	if err != nil {
		t.Fatalf("outboxtest: %v", err)
	}
	return &Rail{t: t, pool: pool, worker: worker, types: handlers.Types()}
}

// Delivery is one call of a handler and what became of it, in values that go-cmp compares.
type Delivery struct {
	EventType      string
	IdempotencyKey string
	AggregateType  string
	AggregateID    uuid.UUID
	// Attempt counts from 1.
	Attempt int
	Outcome outbox.Outcome
	// Error is what the handler returned, as stored; empty for none.
	Error string
}

// maxDeliveries is more than a test means to have: handlers that enqueue for each other would go on for ever.
const maxDeliveries = 10_000

// Drain calls the handlers for all that is due, in order and one after another, and for what becomes due by that, until
// nothing is. It returns the deliveries in their order. What waits for its time stays; see [Rail.Advance].
func (r *Rail) Drain() []Delivery {
	r.t.Helper()
	var all []Delivery
	ctx, cancel := testContext(r.t)
	defer cancel()
	err := r.worker.Drain(ctx, func(d outbox.Delivery) {
		if all = append(all, toDelivery(d)); len(all) == maxDeliveries {
			cancel()
		}
	})
	if len(all) == maxDeliveries {
		r.t.Fatalf("outboxtest: %d deliveries, and no end: do handlers enqueue for each other?", len(all))
	}
	if err != nil {
		r.t.Fatalf("outboxtest: %v", err)
	}
	return all
}

func toDelivery(d outbox.Delivery) Delivery {
	return Delivery{
		EventType: d.EventType, IdempotencyKey: d.IdempotencyKey, AggregateType: d.AggregateType, AggregateID: d.AggregateID,
		Attempt: d.Attempt, Outcome: d.Outcome, Error: d.Error,
	}
}

// Advance lets d pass, 0 to [event.MaxDelay], for everything that waits: retries, snoozes, scheduled events, and the leases of
// workers that died. The database's clock decides what is due and cannot be set, so it is the waiting that is made shorter;
// times that are on record stay.
func (r *Rail) Advance(d time.Duration) {
	r.t.Helper()
	if d < 0 || d > event.MaxDelay {
		r.t.Fatalf("outboxtest: Advance by %v (allowed: 0 to %v)", d, event.MaxDelay)
	}
	const shift = `UPDATE public.outbox_events SET available_at = available_at - make_interval(secs => $1::double precision)
		WHERE status IN ('pending', 'failed', 'processing')`
	ctx, cancel := testContext(r.t)
	defer cancel()
	if _, err := r.pool.Exec(ctx, shift, d.Seconds()); err != nil {
		r.t.Fatalf("outboxtest: advance: %v", err)
	}
}

// maxDeliveriesOfOne is more than any event needs: none is tried more than 20 times, but snoozed it can be for ever.
const maxDeliveriesOfOne = 50

// DrainAll drains, lets time pass until the next event is due, and goes on until none waits for its time: each is processed or
// discarded then, or waits behind a halted aggregate or a type that has no handler here. It returns all deliveries in order.
func (r *Rail) DrainAll() []Delivery {
	r.t.Helper()
	all := r.Drain()
	times := map[[2]string]int{}
	for {
		wait, waits := r.nextDue()
		if !waits {
			return all
		}
		r.Advance(wait)
		some := r.Drain()
		for _, d := range some {
			key := [2]string{d.EventType, d.IdempotencyKey}
			if times[key]++; times[key] > maxDeliveriesOfOne {
				r.t.Fatalf("outboxtest: %s %q was delivered %d times: is it snoozed for ever?", d.EventType, d.IdempotencyKey, times[key])
			}
		}
		all = append(all, some...)
	}
}
