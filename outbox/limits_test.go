package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Case P3: the cap of a type's policy ends the snoozing, with the reason.
func TestP3_SnoozesAreCapped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.check(outbox.SetPolicy(t.Context(), r.db.Pool, outbox.Policy{EventType: "a", MaxSnoozes: 50}))
	r.enqueue(draft(typeA, 1))
	r.exec(`update public.outbox_events set metadata = '{"snoozeCount": 48}'`)
	var handled atomic.Int32
	r.work(register(typeA, func(context.Context, event.Event[payload]) error {
		if handled.Add(1) == 1 {
			return event.Snooze(time.Nanosecond, nil)
		}
		return event.Snooze(time.Hour, errors.New("still not"))
	}), outbox.Config{PollInterval: 20 * time.Millisecond})
	r.until(`(select status = 'failed' and metadata ->> 'snoozeCount' = '50' from public.outbox_events)`)
	r.exec(`update public.outbox_events set available_at = clock_timestamp()`)
	r.done()
	if got := value[string](r, `select status || ' ' || (metadata ->> 'discardReason') || ' ' || attempts from public.outbox_events`); got != "discarded max_snoozes 1" {
		t.Error(got)
	}
}

// Case P3, the worker's own cap: it ends the snoozing with the reason, but for a type whose policy has another one.
func TestP3_WorkersCapOnSnoozes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.check(outbox.SetPolicy(t.Context(), r.db.Pool, outbox.Policy{EventType: "b", MaxSnoozes: 9}))
	r.check(outbox.SetPolicy(t.Context(), r.db.Pool, outbox.Policy{EventType: "c", MaxAttempts: 9}))
	ids := r.enqueue(draft(typeA, 1), draft(typeA, 2), draft(typeB, 3), draft(typeB, 4), draft(typeC, 5), draft(typeA, 6))
	for i, count := range []string{`4`, `5`, `8`, `9`, `5`, `"5"`} {
		r.exec(`update public.outbox_events set metadata = jsonb_build_object('snoozeCount', $2::text::jsonb) where id = $1::uuid`, ids[i], count)
	}
	snooze := func(context.Context, event.Event[payload]) error {
		return event.Snooze(time.Hour, errors.New("not now"))
	}
	h := register(typeA, snooze)
	outbox.Handle(h, typeB, snooze)
	outbox.Handle(h, typeC, snooze)
	told := map[int]outbox.Outcome{}
	w, err := outbox.NewWorker(r.db.Pool, h, outbox.Config{MaxSnoozes: 5})
	r.check(err)
	r.check(w.Drain(t.Context(), func(d outbox.Delivery) { told[slices.Index(ids, d.ID)+1] = d.Outcome }))
	want := map[int]outbox.Outcome{1: outbox.OutcomeSnoozed, 2: outbox.OutcomeDiscarded, 3: outbox.OutcomeSnoozed, 4: outbox.OutcomeDiscarded,
		5: outbox.OutcomeDiscarded, 6: outbox.OutcomeSnoozed}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if got := value[string](r, `select string_agg(distinct error || ', ' || (metadata ->> 'discardReason'), ', ') from public.outbox_events where status = 'discarded'`); got != "snooze for 1h0m0s: not now, max_snoozes" {
		t.Error(got)
	}
}

// Case P4: of two workers with limits of 3 and 8 the lower one handles what the other has tried five times, instead of
// discarding it unheard. What fails in its own hands goes by its own limit.
func TestP4_LowerLimitDiscardsNothingUnheard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var lower atomic.Bool
	h := register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if lower.Load() && e.Payload.N == 1 {
			return nil
		}
		return event.RetryAfter(0, errors.New("not yet"))
	})
	outcomes := func(limit, deliveries int) (all []string) {
		w, err := outbox.NewWorker(r.db.Pool, h, outbox.Config{MaxAttempts: limit})
		r.check(err)
		ctx, cancel := context.WithCancel(t.Context())
		err = w.Drain(ctx, func(d outbox.Delivery) {
			if all = append(all, fmt.Sprint(d.IdempotencyKey, " ", d.Attempt, " ", d.Outcome)); len(all) == deliveries {
				cancel()
			}
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return all
	}
	r.enqueue(typeA.New("order", agg(1), "one", payload{1}))
	want := []string{"one 1 failed", "one 2 failed", "one 3 failed", "one 4 failed", "one 5 failed"}
	if diff := cmp.Diff(want, outcomes(8, 5)); diff != "" {
		t.Fatalf("the higher limit (-want +got):\n%s", diff)
	}
	r.enqueue(typeA.New("order", agg(2), "two", payload{2}))
	lower.Store(true)
	want = []string{"one 6 processed", "two 1 failed", "two 2 failed", "two 3 discarded"}
	if diff := cmp.Diff(want, outcomes(3, 0)); diff != "" {
		t.Errorf("the lower limit (-want +got):\n%s", diff)
	}
}

// Case P4: a policy gives its type more attempts than the worker does.
func TestP4_PolicyOverrulesTheWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.check(outbox.SetPolicy(t.Context(), r.db.Pool, outbox.Policy{EventType: "a", MaxAttempts: 8}))
	r.enqueue(draft(typeA, 1), draft(typeB, 2))
	r.exec(`update public.outbox_events set attempts = 4, status = 'failed'`)
	h := register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if e.Attempt < 8 {
			return event.RetryAfter(0, errors.New("not yet"))
		}
		return nil
	})
	outbox.Handle(h, typeB, func(context.Context, event.Event[payload]) error {
		return errors.New("once too often")
	})
	r.work(h, outbox.Config{MaxAttempts: 3, PollInterval: 20 * time.Millisecond})
	r.done()
	if got := value[string](r, `select string_agg(event_type || ' ' || status || ' ' || attempts, ', ' order by event_type) from public.outbox_events`); got != "a processed 8, b discarded 5" {
		t.Error(got)
	}
}

func TestMaxAttemptsDiscards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeA, 1))
	var handled atomic.Int32
	w := r.work(register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if handled.Add(1) > 3 {
			return nil // the one behind it
		}
		return event.RetryAfter(0, errors.New("bad luck"))
	}), outbox.Config{MaxAttempts: 3, PollInterval: 20 * time.Millisecond})
	r.done()
	if got := value[string](r, `select string_agg(status || ' ' || attempts || ' ' || coalesce(metadata ->> 'discardReason', ''), ', ' order by created_at) from public.outbox_events`); got != "discarded 3 max_attempts, processed 1 " {
		t.Error(got)
	}
	if r.check(w.stop(t)); !w.log.has("event discarded") {
		t.Errorf("the log does not tell: %s", w.log)
	}
}

// The worker's own delays reach the table.
func TestBackoffAndSnoozeAreStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 2))
	r.exec(`update public.outbox_events set attempts = 2 where event_type = 'a'`)
	h := register(typeA, func(context.Context, event.Event[payload]) error { return errors.New("third time") })
	outbox.Handle(h, typeB, func(context.Context, event.Event[payload]) error { return event.Snooze(0, nil) })
	r.work(h, outbox.Config{BaseDelay: 100 * time.Second, MaxDelay: 300 * time.Second, Snooze: 10 * time.Minute})
	r.until(`(select count(*) = 2 from public.outbox_events where status = 'failed')`)
	due := func(eventType string) float64 {
		return value[float64](r, `select date_part('epoch', available_at - clock_timestamp()) from public.outbox_events where event_type = $1`, eventType)
	}
	// 400 s by doubling, cut to 300 s, jittered down to a half at most.
	if got := due("a"); got < 100 || got > 300 {
		t.Errorf("retry in %v s", got)
	}
	if got := due("b"); got < 560 || got > 600 {
		t.Errorf("snoozed for %v s", got)
	}
}
