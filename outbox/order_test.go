package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

func TestWorkerKeepsTheOrderOfEveryAggregate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var drafts []event.Draft
	for i := range 600 {
		drafts = append(drafts, []event.Definition[payload]{typeA, typeB}[i/7%2].New("order", agg(i%40), uuid.NewString(), payload{i}))
	}
	r.enqueue(drafts...)
	var mu sync.Mutex
	seen := map[uuid.UUID][]int{}
	flying := map[uuid.UUID]int{}
	fn := func(_ context.Context, e event.Event[payload]) error {
		mu.Lock()
		defer mu.Unlock()
		if flying[e.AggregateID]++; flying[e.AggregateID] > 1 {
			t.Errorf("two of one aggregate at once")
		}
		// Each fifth fails at first, and those behind it wait.
		if e.Payload.N%5 == 0 && e.Attempt == 1 {
			flying[e.AggregateID]--
			return event.RetryAfter(0, errors.New("once more"))
		}
		seen[e.AggregateID] = append(seen[e.AggregateID], e.Payload.N)
		flying[e.AggregateID]--
		return nil
	}
	h := register(typeA, fn)
	outbox.Handle(h, typeB, fn)
	for range 3 {
		r.work(h, outbox.Config{})
	}
	r.done()
	mu.Lock()
	defer mu.Unlock()
	for id, order := range seen {
		if !slices.IsSorted(order) || len(order) != 15 {
			t.Errorf("%v: %v", id, order)
		}
	}
}

// A type that halts on discard: its aggregate stands still, the others go on, and resuming lets it go.
func TestHaltingPolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.check(outbox.SetPolicy(t.Context(), r.db.Pool, outbox.Policy{EventType: "a", OnDiscard: outbox.Halt}))
	got := make(chan int, 10)
	h := register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if e.IdempotencyKey == "bad" {
			return event.Discard(errors.New("cannot be"))
		}
		got <- e.Payload.N
		return nil
	})
	r.work(h, outbox.Config{PollInterval: 20 * time.Millisecond})
	r.enqueue(typeA.New("order", agg(1), "bad", payload{1}), draft(typeA, 1), draft(typeA, 2))
	if n := receive(t, got); n != 2 {
		t.Errorf("aggregate %d moved", n)
	}
	r.until(`exists (select from public.outbox_halted_aggregates)`)
	halted, err := outbox.Halted(t.Context(), r.db.Pool, 10)
	if err != nil || len(halted) != 1 || halted[0].AggregateID != agg(1) || halted[0].EventType != "a" || halted[0].Reason != "permanent_error" {
		t.Errorf("%+v, %v", halted, err)
	}
	if resumed, err := outbox.Resume(t.Context(), r.db.Pool, "order", agg(1)); err != nil || !resumed {
		t.Errorf("resumed %v, %v", resumed, err)
	}
	if n := receive(t, got); n != 1 {
		t.Errorf("aggregate %d moved", n)
	}
	r.done()
}

// Case O8: another consumer's types overtake nothing and are overtaken by nobody, unless that is asked for.
func TestO8_OtherConsumersAreAnExplicitChoice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := make(chan int, 10)
	fn := func(_ context.Context, e event.Event[payload]) error {
		got <- e.Payload.N
		return nil
	}
	r.enqueue(draft(typeB, 1), draft(typeA, 1), draft(typeA, 2))
	strict := r.work(register(typeA, fn), outbox.Config{PollInterval: 20 * time.Millisecond})
	if n := receive(t, got); n != 2 {
		t.Errorf("aggregate %d overtook an older event of a type nobody here handles", n)
	}
	r.check(strict.stop(t))
	r.work(register(typeA, fn), outbox.Config{OtherConsumers: []string{"b"}})
	if n := receive(t, got); n != 1 {
		t.Errorf("got aggregate %d", n)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where event_type = 'b' and status = 'pending' and attempts = 0`); n != 1 {
		t.Error("the other consumer's event was touched")
	}
}
