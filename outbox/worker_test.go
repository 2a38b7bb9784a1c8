package outbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// The envelope brings what was drafted, and counts the attempts.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.enqueue(typeA.New("order", agg(7), "the key", payload{42}).WithMetadata("tenant", "x"))[0]
	got := make(chan event.Event[payload], 2)
	r.work(register(typeA, func(_ context.Context, e event.Event[payload]) error {
		got <- e
		if e.Attempt == 1 {
			return event.RetryAfter(0, errors.New("once more"))
		}
		return nil
	}), outbox.Config{})
	for attempt := 1; attempt <= 2; attempt++ {
		e := receive(t, got)
		if e.ID != id || e.EventType != "a" || e.IdempotencyKey != "the key" || e.AggregateType != "order" || e.AggregateID != agg(7) ||
			e.Attempt != attempt || e.Payload.N != 42 || string(e.Envelope.Payload) != `{"n": 42}` || !strings.Contains(string(e.Metadata), `"tenant": "x"`) {
			t.Errorf("%+v %s %s", e, e.Envelope.Payload, e.Metadata)
		}
		if e.CreatedAt.Location() != time.UTC || time.Since(e.CreatedAt).Abs() > time.Hour {
			t.Errorf("created at %v", e.CreatedAt)
		}
	}
	r.done()
}

// Case P1: what does not decode is discarded at once, counted apart, and reaches no handler.
func TestP1_UndecodableIsDiscardedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad := draft(typeA, 1)
	bad.Payload = []byte(`{"n": "hunter2"}`)
	badTx := draft(typeB, 2)
	badTx.Payload = []byte(`["hunter2"]`)
	r.enqueue(bad, badTx, draft(typeA, 1))
	h := register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if e.Payload.N != 1 {
			t.Errorf("reached the handler: %+v", e)
		}
		return nil
	})
	handleTx(h, typeB, func(context.Context, tx, event.Event[payload]) error {
		t.Error("reached the handler")
		return nil
	})
	w := r.work(h, outbox.Config{})
	r.done()
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'discarded' and attempts = 1 and metadata ->> 'discardReason' = 'undecodable'
		and error not like '%hunter2%'`); n != 2 {
		t.Errorf("%d of 2 discarded as undecodable", n)
	}
	if r.check(w.stop(t)); w.log.has("hunter2") {
		t.Errorf("the log repeats the payload: %s", w.log)
	}
}

// Middleware wraps every handler, the first one outermost, and decides with its error.
func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 1))
	var mu sync.Mutex
	var steps []string
	step := func(s string) { mu.Lock(); defer mu.Unlock(); steps = append(steps, s) }
	named := func(name string) event.Middleware {
		return func(next event.Handler) event.Handler {
			return func(ctx context.Context, e event.Envelope) error {
				step(name + ">" + e.EventType)
				err := next(ctx, e)
				step("<" + name)
				return err
			}
		}
	}
	h := register(typeA, func(context.Context, event.Event[payload]) error { step("a"); return nil })
	handleTx(h, typeB, func(context.Context, tx, event.Event[payload]) error { step("b"); return nil })
	h.Use(named("1"), named("2"))
	h.Use(named("3"))
	r.work(h, outbox.Config{})
	r.done()
	mu.Lock()
	defer mu.Unlock()
	want := strings.Fields("1>a 2>a 3>a a <3 <2 <1 1>b 2>b 3>b b <3 <2 <1")
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
}

// Case G3: four handlers with a connection each of a pool of four, all at once: nothing waits for the pool to acknowledge.
func TestG3_HandlersMayExhaustThePool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	small := r.pool(func(c *pgxpool.Config) { c.MaxConns = 4 })
	r.enqueue(draft(typeA, 1), draft(typeA, 2), draft(typeA, 3), draft(typeA, 4), draft(typeA, 5))
	var together sync.WaitGroup
	together.Add(4)
	var n atomic.Int32
	w := r.workOn(&pgtest.DB{Pool: small}, register(typeA, func(ctx context.Context, _ event.Event[payload]) error {
		if n.Add(1) > 4 {
			return nil
		}
		conn, err := small.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		together.Done()
		together.Wait()
		// The fifth is claimed, handled and acknowledged while all four are taken.
		r.until(`exists (select from public.outbox_events where status = 'processed')`)
		return nil
	}), outbox.Config{})
	r.done()
	r.check(w.stop(t))
}

// An idle worker is asleep in outbox_rail; an insert notifies, and the handler runs although the next poll is far away.
func TestWakeUpByNotify(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := make(chan int, 1)
	r.work(register(typeA, func(_ context.Context, e event.Event[payload]) error { got <- e.Payload.N; return nil }),
		outbox.Config{PollInterval: time.Minute})
	ear := r.db.Connect(t)
	if _, err := ear.Exec(t.Context(), `listen outbox_events`); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		r.until(`(select asleep from public.outbox_rail)`)
		r.enqueue(draft(typeA, n))
		heard, err := ear.WaitForNotification(t.Context())
		for err == nil && heard.Payload != "" { // the listener's tests of itself
			heard, err = ear.WaitForNotification(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if m := receive(t, got); m != n {
			t.Errorf("got %d, want %d", m, n)
		}
		r.done()
	}
}
