package outbox_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/outbox"
)

// Wrong arguments are told before any SQL.
func TestOperateArguments(t *testing.T) {
	t.Parallel()
	db := &deaf{}
	ctx := t.Context()
	first := func(_ any, err error) error { return err }
	for field, errs := range map[string][]error{
		"EventType": {outbox.SetPolicy(ctx, db, outbox.Policy{}), outbox.SetPolicy(ctx, db, outbox.Policy{EventType: "\xff"}),
			outbox.SetPolicy(ctx, db, outbox.Policy{EventType: strings.Repeat("t", 256)}), outbox.SetPolicy(ctx, db, outbox.Policy{EventType: "a\x00"})},
		"MaxAttempts": {outbox.SetPolicy(ctx, db, outbox.Policy{EventType: "a", MaxAttempts: 21}),
			outbox.SetPolicy(ctx, db, outbox.Policy{EventType: "a", MaxAttempts: -1}),
			outbox.SetPolicy(ctx, db, outbox.Policy{EventType: "a", MaxAttempts: math.MaxInt32 + 6})},
		"MaxSnoozes": {outbox.SetPolicy(ctx, db, outbox.Policy{EventType: "a", MaxSnoozes: 100_001}),
			outbox.SetPolicy(ctx, db, outbox.Policy{EventType: "a", MaxSnoozes: -1})},
		"OnDiscard": {outbox.SetPolicy(ctx, db, outbox.Policy{EventType: "a", OnDiscard: "stop"})},
		"limit": {first(outbox.Stats(ctx, db, 0)), first(outbox.Stats(ctx, db, math.MaxInt32+1)), first(outbox.Discarded(ctx, db, 0, "a")),
			first(outbox.Halted(ctx, db, -1)), first(outbox.Prune(ctx, db, 0, 0, 0)), first(outbox.Prune(ctx, db, 0, 0, 10_001))},
		"types":         {first(outbox.Discarded(ctx, db, 1)), first(outbox.Discarded(ctx, db, 1, "a", " "))},
		"ids":           {first(outbox.Redrive(ctx, db, "me", "why", make([]uuid.UUID, 1001)...))},
		"by":            {first(outbox.Redrive(ctx, db, " \t", "why", agg(1))), first(outbox.Redrive(ctx, db, "\x00", "why"))},
		"reason":        {first(outbox.Redrive(ctx, db, "me", "", agg(1))), first(outbox.Redrive(ctx, db, "me", "\xff", agg(1)))},
		"keep":          {first(outbox.Prune(ctx, db, -1, 0, 1)), first(outbox.Prune(ctx, db, math.MaxInt64, 0, 1))},
		"keepDiscarded": {first(outbox.Prune(ctx, db, 0, -1, 1)), first(outbox.Prune(ctx, db, 0, math.MaxInt64, 1))},
		"aggregateType": {first(outbox.Resume(ctx, db, "", agg(1))), first(outbox.ExplainAggregate(ctx, db, "a\x00", agg(1)))},
	} {
		for _, err := range errs {
			requireConfigError(t, err, field)
		}
	}
	if db.asked != 0 {
		t.Errorf("%d statements were sent", db.asked)
	}
	for _, err := range []error{
		outbox.SetPolicy(ctx, nil, outbox.Policy{EventType: "a"}), first(outbox.Stats(ctx, nil, 1)), first(outbox.Discarded(ctx, nil, 1, "a")),
		first(outbox.Halted(ctx, nil, 1)), first(outbox.Prune(ctx, nil, 0, 0, 1)), first(outbox.Redrive(ctx, nil, "me", "why")),
		first(outbox.Resume(ctx, nil, "order", agg(1))), first(outbox.Explain(ctx, nil, agg(1))), first(outbox.ExplainAggregate(ctx, nil, "order", agg(1))),
	} {
		requireConfigError(t, errors.Unwrap(err), "tx")
	}
}

// Errors of the database reach the caller, from every function.
func TestOperateFailures(t *testing.T) {
	t.Parallel()
	first := func(_ any, err error) error { return err }
	ctx := t.Context()
	for i, err := range []error{
		outbox.SetPolicy(ctx, &deaf{}, outbox.Policy{EventType: "a"}), first(outbox.Stats(ctx, &deaf{}, 1)), first(outbox.Discarded(ctx, &deaf{}, 1, "a")),
		first(outbox.Halted(ctx, &deaf{}, 1)), first(outbox.Prune(ctx, &deaf{}, 0, 0, 1)), first(outbox.Redrive(ctx, &deaf{}, "me", "why")),
		first(outbox.Resume(ctx, &deaf{}, "order", agg(1))), first(outbox.Explain(ctx, &deaf{}, agg(1))), first(outbox.ExplainAggregate(ctx, &deaf{}, "order", agg(1))),
		first(outbox.Enqueue(ctx, &deaf{}, draft(typeA, 1))),
	} {
		if err == nil || !strings.Contains(err.Error(), "asked") {
			t.Errorf("function %d: %v", i, err)
		}
	}
}

// Case P7: the holder of what is in flight is told, of the event itself and of what is in its way.
func TestP7_Holder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.enqueue(draft(typeA, 1), draft(typeA, 1))
	holder := uuid.New()
	r.exec(`select public.outbox_claim_events(array['a'], '{}', 10, 300, 8, $1::uuid)`, holder)
	held, err := outbox.Explain(t.Context(), r.db.Pool, ids[0])
	if err != nil || held.HeldBy != holder {
		t.Errorf("%+v, %v", held, err)
	}
	behind, err := outbox.Explain(t.Context(), r.db.Pool, ids[1])
	if err != nil || behind.HeldBy != uuid.Nil || behind.Blocker == nil || behind.Blocker.HeldBy != holder {
		t.Errorf("%+v, %v", behind, err)
	}
}

// Case P7: one call answers why an event and its aggregate do not move, for every reason there is.
func TestP7_Explain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	of := func(n int, status string, attempts int, due string) uuid.UUID {
		return value[uuid.UUID](r, `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, attempts, available_at)
			values ('order', $1, 'a', gen_random_uuid()::text, '{}', $2, $3, clock_timestamp() + $4::interval) returning id`, agg(n), status, attempts, due)
	}
	head := of(1, "failed", 3, "1 hour")
	blocked, behind := of(1, "pending", 0, "0"), of(1, "pending", 0, "0")
	if err := outbox.SetPolicy(t.Context(), r.db.Pool, outbox.Policy{EventType: "a", OnDiscard: outbox.Halt}); err != nil {
		t.Fatal(err)
	}
	halted := of(2, "pending", 20, "-1 hour")
	waiting := of(2, "pending", 0, "0")
	r.exec(`select public.outbox_claim_batch(array['a'])`) // discards what is exhausted, and so halts its aggregate
	for id, want := range map[uuid.UUID]outbox.Reason{
		of(3, "processed", 1, "0"):       outbox.ReasonProcessed,
		halted:                           outbox.ReasonDiscarded,
		of(5, "processing", 1, "1 hour"): outbox.ReasonInFlight,
		of(6, "processing", 1, "-1 s"):   outbox.ReasonLeaseExpired,
		waiting:                          outbox.ReasonHalted,
		head:                             outbox.ReasonNotDue,
		blocked:                          outbox.ReasonBlocked,
		of(8, "pending", 0, "0"):         outbox.ReasonClaimable,
	} {
		got, err := outbox.Explain(t.Context(), r.db.Pool, id)
		if err != nil || got == nil || got.Reason != want || got.EventID != id || got.EventType != "a" {
			t.Errorf("want %s, got %+v, %v", want, got, err)
		}
	}
	got, err := outbox.Explain(t.Context(), r.db.Pool, behind)
	if err != nil {
		t.Fatal(err)
	}
	if got.Blocker == nil || got.Blocker.EventID != head || got.Blocker.Status != "failed" || got.Blocker.Attempts != 3 ||
		got.Blocker.DueIn < 59*time.Minute || got.Blocker.DueIn > time.Hour || got.WaitingBehind != 0 || got.DueIn > 0 {
		t.Errorf("%+v behind %+v", got, got.Blocker)
	}
	whole, err := outbox.ExplainAggregate(t.Context(), r.db.Pool, "order", agg(1))
	if err != nil || whole.EventID != head || whole.Reason != outbox.ReasonNotDue || whole.WaitingBehind != 2 || whole.Blocker != nil {
		t.Errorf("%+v, %v", whole, err)
	}
	for _, nothing := range []func() (*outbox.Explanation, error){
		func() (*outbox.Explanation, error) { return outbox.Explain(t.Context(), r.db.Pool, agg(999)) },
		func() (*outbox.Explanation, error) {
			return outbox.ExplainAggregate(t.Context(), r.db.Pool, "order", agg(999))
		},
	} {
		if got, err := nothing(); got != nil || err != nil {
			t.Errorf("%+v, %v for what does not exist", got, err)
		}
	}
}

// Case P2: what nobody handles shows, and grows old there.
func TestP2_StatsShowWhatNobodyHandles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, created_at)
		values ('order', $1, 'orphan', 'k', '{}', clock_timestamp() - interval '30 days')`, agg(1))
	r.enqueue(draft(typeA, 2), draft(typeA, 2), draft(typeA, 3), draft(typeA, 5), draft(typeA, 4).WithDelay(time.Hour))
	r.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('orphan', 'me', 'old')`)
	r.exec(`select public.outbox_claim_batch(array['a'], p_batch_size => 1)`)
	stats, err := outbox.Stats(t.Context(), r.db.Pool, 100)
	if err != nil || len(stats) != 2 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if age := stats[1].OldestAge; age < 30*24*time.Hour || age > 31*24*time.Hour {
		t.Errorf("the oldest orphan is %v old", age)
	}
	stats[0].OldestAge, stats[1].OldestAge = 0, 0
	want := []outbox.TypeStats{{EventType: "a", Ready: 2, Later: 1, InFlight: 1, Parked: 1}, {EventType: "orphan", Ready: 1, Dormant: true}}
	if diff := cmp.Diff(want, stats); diff != "" {
		t.Error(diff)
	}
	if stats, err := outbox.Stats(t.Context(), r.db.Pool, 1); err != nil || stats[0].Ready != 1 {
		t.Errorf("counted beyond the limit: %+v, %v", stats, err)
	}
}

func TestRedriveInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.enqueue(draft(typeA, 1), draft(typeA, 1), draft(typeA, 2), draft(typeB, 3))
	r.exec(`update public.outbox_events set status = 'discarded', attempts = 8, metadata = '{"discardReason": "max_attempts"}' where event_type = 'a'`)
	listed, err := outbox.Discarded(t.Context(), r.db.Pool, 10, "a", "b")
	if err != nil || !slices.Equal(listed, ids[:3]) {
		t.Errorf("listed %v, %v; want %v", listed, err, ids[:3])
	}
	if one, err := outbox.Discarded(t.Context(), r.db.Pool, 1, "a"); err != nil || !slices.Equal(one, ids[:1]) {
		t.Errorf("the oldest is %v, %v", one, err)
	}
	got, err := outbox.Redrive(t.Context(), r.db.Pool, "ann", "fixed the receiver", append(listed, ids[3], agg(99))...)
	want := map[uuid.UUID]outbox.RedriveOutcome{ids[0]: outbox.Redriven, ids[1]: outbox.Redriven, ids[2]: outbox.Redriven,
		ids[3]: outbox.RedriveNotDiscarded, agg(99): outbox.RedriveNotFound}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'pending' and attempts = 0
		and metadata ->> 'redrivenBy' = 'ann' and metadata ->> 'redriveReason' = 'fixed the receiver' and not metadata ? 'discardReason'`); n != 3 {
		t.Errorf("%d reopened with who and why on record, want 3", n)
	}
	if got, err := outbox.Redrive(t.Context(), r.db.Pool, "ann", "nothing"); err != nil || len(got) != 0 {
		t.Errorf("no ids: %v, %v", got, err)
	}
}

// Case O6 from Go: refused while a younger one is in flight, with the reason said.
func TestO6_RedriveBesideOneInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.enqueue(draft(typeA, 1), draft(typeA, 1))
	r.exec(`update public.outbox_events set status = 'discarded' where id = $1`, ids[0])
	r.exec(`select public.outbox_claim_batch(array['a'])`)
	got, err := outbox.Redrive(t.Context(), r.db.Pool, "ann", "too early", ids[0])
	if err != nil || got[ids[0]] != outbox.RedriveInFlight {
		t.Errorf("%v, %v", got, err)
	}
}

func TestPruneKeepsTheWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, created_at, processed_at)
		select 'order', $1, 'a', x.status || i, '{}', x.status, clock_timestamp() - i * interval '1 hour',
			case when x.status = 'processed' then clock_timestamp() - i * interval '1 hour' end
		from generate_series(1, 10) i, unnest(array['processed', 'discarded', 'pending']) x(status)`, agg(1))
	prune := func(keep, keepDiscarded time.Duration, limit int) int {
		t.Helper()
		n, err := outbox.Prune(t.Context(), r.db.Pool, keep, keepDiscarded, limit)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	got := []int{prune(11*time.Hour, 0, 10), prune(150*time.Minute, 0, 3), prune(150*time.Minute, 0, 100), prune(24*time.Hour, 330*time.Minute, 100)}
	if diff := cmp.Diff([]int{0, 3, 5, 5}, got); diff != "" {
		t.Error(diff)
	}
	if left := value[string](r, `select string_agg(distinct status || ' ' || n, ', ' order by status || ' ' || n) from
		(select status, count(*) as n from public.outbox_events group by status) s`); left != "discarded 5, pending 10, processed 2" {
		t.Error(left)
	}
}

// Case D4: the window is what was asked for; after it the key is free again.
func TestD4_PrunedKeysAreFreeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	again := typeA.New("order", agg(1), "once", payload{1})
	first := r.enqueue(again)[0]
	r.exec(`update public.outbox_events set status = 'processed', processed_at = clock_timestamp() - interval '2 hours'`)
	if n, err := outbox.Prune(t.Context(), r.db.Pool, 3*time.Hour, 0, 10); n != 0 || err != nil {
		t.Errorf("%d pruned inside the window, %v", n, err)
	}
	if second := r.enqueue(again)[0]; second != first {
		t.Error("a duplicate inside the window was written")
	}
	if n, err := outbox.Prune(t.Context(), r.db.Pool, time.Hour, 0, 10); n != 1 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
	if third := r.enqueue(again)[0]; third == first {
		t.Error("the key was not free")
	}
}
