package outboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/outboxtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type order struct {
	N int `json:"n"`
}

var (
	placed  = event.MustDefine[order]("order.placed")
	foreign = event.MustDefine[order]("order.foreign")
)

func draft(of event.Definition[order], agg byte, key string) event.Draft {
	return of.New("order", uuid.UUID{15: agg}, key, order{int(agg)})
}

// failing fails the first n tries of every event, and hands each error on.
func failing(n int, with error) *outbox.Handlers {
	var handlers outbox.Handlers
	outbox.Handle(&handlers, placed, func(_ context.Context, e event.Event[order]) error {
		if e.Attempt <= n {
			return with
		}
		return nil
	})
	return &handlers
}

func enqueue(t *testing.T, tx outbox.DB, drafts ...event.Draft) {
	t.Helper()
	if _, err := outbox.Enqueue(t.Context(), tx, drafts...); err != nil {
		t.Fatal(err)
	}
}

// short is a delivery in a line.
func short(deliveries []outboxtest.Delivery) (lines []string) {
	for _, d := range deliveries {
		lines = append(lines, fmt.Sprintf("%s %d %s %s", d.IdempotencyKey, d.Attempt, d.Outcome, d.Error))
	}
	return lines
}

func TestDrain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	rail := outboxtest.New(t, db.Pool, failing(0, nil), outbox.Config{})
	if got := rail.Drain(); got != nil {
		t.Errorf("deliveries of nothing: %v", got)
	}
	enqueue(t, db.Pool, draft(placed, 1, "a"), draft(placed, 1, "b"))
	want := []outboxtest.Delivery{
		{EventType: "order.placed", IdempotencyKey: "a", AggregateType: "order", AggregateID: uuid.UUID{15: 1}, Attempt: 1, Outcome: outbox.OutcomeProcessed},
		{EventType: "order.placed", IdempotencyKey: "b", AggregateType: "order", AggregateID: uuid.UUID{15: 1}, Attempt: 1, Outcome: outbox.OutcomeProcessed},
	}
	if diff := cmp.Diff(want, rail.Drain()); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	rail.RequireEnqueued(draft(placed, 1, "a"), draft(placed, 1, "b"))
	rail.RequireDelivered(draft(placed, 1, "b"))
}

// TestAdvance: a retry comes when its backoff has passed by the shifted clock, and not before.
func TestAdvance(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	rail := outboxtest.New(t, db.Pool, failing(1, errors.New("oh")), outbox.Config{BaseDelay: time.Hour})
	enqueue(t, db.Pool, draft(placed, 1, "a"), draft(placed, 1, "behind"), draft(placed, 2, "later").WithDelay(3*time.Hour))
	got := short(rail.Drain())
	rail.Advance(20 * time.Minute) // the backoff is half an hour at least
	got = append(got, short(rail.Drain())...)
	rail.Advance(time.Hour)
	got = append(got, short(rail.Drain())...)
	want := []string{"a 1 failed oh", "a 2 processed ", "behind 1 failed oh"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	want = []string{"behind 2 processed ", "later 1 failed oh", "later 2 processed "}
	if diff := cmp.Diff(want, short(rail.DrainAll())); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
}

// TestDrainAllEnds: with what is exhausted, foreign, or behind what is foreign, it comes to an end.
func TestDrainAllEnds(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	rail := outboxtest.New(t, db.Pool, failing(9, errors.New("oh")), outbox.Config{MaxAttempts: 2})
	enqueue(t, db.Pool, draft(placed, 1, "a"), draft(foreign, 2, "foreign").WithDelay(time.Hour), draft(placed, 2, "b").WithDelay(time.Minute))
	want := []string{"a 1 failed oh", "a 2 discarded oh"}
	if diff := cmp.Diff(want, short(rail.DrainAll())); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	var statuses []string
	for _, e := range rail.Events() {
		statuses = append(statuses, fmt.Sprint(e.IdempotencyKey, " ", e.Status, " ", e.Attempts, " ", e.Error, " ", e.Payload))
	}
	want = []string{"a discarded 2 oh map[n:1]", "foreign pending 0  map[n:2]", "b pending 0  map[n:2]"}
	if diff := cmp.Diff(want, statuses); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestDeadWorker: what a worker had when it died comes back when its lease has passed.
func TestDeadWorker(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	rail := outboxtest.New(t, db.Pool, failing(0, nil), outbox.Config{})
	enqueue(t, db.Pool, draft(placed, 1, "a"))
	if _, err := db.Pool.Exec(t.Context(), `select public.outbox_claim_batch(array['order.placed'])`); err != nil {
		t.Fatal(err)
	}
	if got := rail.Drain(); got != nil {
		t.Errorf("delivered under another's lease: %v", got)
	}
	rail.Advance(5 * time.Minute)
	if diff := cmp.Diff([]string{"a 2 processed "}, short(rail.Drain())); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
}

// failed is a test that notes how it ends instead of failing.
type failed struct {
	testing.TB
	message string
}

func (f *failed) Helper() {}
func (f *failed) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// refusal returns what a test that does this is told.
func refusal(t *testing.T, do func(testing.TB)) string {
	t.Helper()
	f := &failed{TB: t}
	done := make(chan struct{})
	go func() { defer close(done); do(f) }()
	<-done
	return f.message
}

// TestRefusals: each requirement can fail, and then says what is the matter.
func TestRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	enqueue(t, db.Pool, draft(placed, 1, "a"), draft(placed, 1, "b"), draft(foreign, 2, "f"), draft(placed, 3, "later").WithDelay(time.Hour))
	on := func(handlers *outbox.Handlers, do func(*outboxtest.Rail)) func(testing.TB) {
		return func(t testing.TB) { do(outboxtest.New(t, db.Pool, handlers, outbox.Config{})) }
	}
	bad := failing(99, errors.New("oh"))
	for _, c := range []struct {
		name string
		do   func(testing.TB)
		says []string
	}{
		{"no handlers", on(nil, func(*outboxtest.Rail) {}), []string{"Handlers"}},
		{"one is missing", on(bad, func(r *outboxtest.Rail) { r.RequireEnqueued(draft(placed, 1, "a")) }), []string{"-want +got", `"later"`}},
		{"one too many", on(bad, func(r *outboxtest.Rail) {
			r.RequireEnqueued(draft(placed, 1, "a"), draft(placed, 1, "b"), draft(foreign, 2, "f"), draft(placed, 3, "later"), draft(placed, 4, "no"))
		}), []string{`"no"`}},
		{"another payload", on(bad, func(r *outboxtest.Rail) {
			r.RequireEnqueued(draft(placed, 1, "a"), placed.New("order", uuid.UUID{15: 1}, "b", order{7}), draft(foreign, 2, "f"), draft(placed, 3, "later"))
		}), []string{"float64(7)"}},
		{"a draft that is none", on(bad, func(r *outboxtest.Rail) { r.RequireEnqueued(draft(placed, 1, "")) }), []string{"draft 0", "IdempotencyKey"}},
		{"not delivered", on(bad, func(r *outboxtest.Rail) {
			r.RequireDelivered(draft(placed, 1, "a"), draft(placed, 1, "b"), draft(foreign, 2, "f"), draft(placed, 3, "later"), draft(placed, 9, "x"))
		}), []string{`"a": failed after 1 attempts, not_due, due in`, "error: oh", `"b": pending after 0 attempts, blocked, behind a order.placed that is failed`,
			`"f": pending after 0 attempts, claimable`, `"later": pending after 0 attempts, not_due, due in 1h0m0s`, `"x": never enqueued`}},
		{"back in time", on(bad, func(r *outboxtest.Rail) { r.Advance(-1) }), []string{"allowed: 0 to"}},
		{"snoozed for ever", on(failing(99, event.Snooze(time.Hour, errors.New("z"))), func(r *outboxtest.Rail) { r.DrainAll() }), []string{"snoozed for ever"}},
	} {
		got := refusal(t, c.do)
		for _, want := range c.says {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the test is told %q, want %q in it", c.name, got, want)
			}
		}
	}
}
