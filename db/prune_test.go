package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// D4: pruning takes what came to rest longer ago than asked, the oldest first, in batches;
// never what is active or what halts its aggregate.
func TestPrune(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	ended := func(n int, hours float64) uuid.UUID {
		id := r.insert(row{Agg: n, Status: "processed", Age: 100 * time.Hour})
		r.exec(`update public.outbox_events set processed_at = clock_timestamp() - $2::interval where id = $1`, id, time.Duration(hours*float64(time.Hour)))
		return id
	}
	// Not in the order of their age or of their writing.
	second, fourth, first, third := ended(1, 8), ended(2, 2), ended(3, 9), ended(4, 7)
	byHand := r.insert(row{Agg: 5, Status: "processed", Age: 5 * time.Hour}) // without processed_at: counted from when it was written
	var stay []uuid.UUID
	for i, status := range []string{"pending", "failed", "processing", "discarded"} {
		stay = append(stay, r.insert(row{Agg: 10 + i, Status: status, Age: 1000 * time.Hour, Due: time.Hour}))
	}
	prune := func(seconds, limit any) int {
		return value[int](r, `select public.outbox_prune($1, $2)`, seconds, limit)
	}
	left := func(candidates ...uuid.UUID) []uuid.UUID {
		return column[uuid.UUID](r, `select u.id from unnest($1::uuid[]) with ordinality u(id, n) join public.outbox_events e using (id) order by u.n`, candidates)
	}
	for i, step := range []struct {
		seconds, limit any
		deleted        int
		left           []uuid.UUID
	}{
		{36000, 10, 0, []uuid.UUID{first, second, third, byHand, fourth}},
		{3600 * 6, 2, 2, []uuid.UUID{third, byHand, fourth}},
		{3600 * 6, 2, 1, []uuid.UUID{byHand, fourth}},
		{3600 * 6, 2, 0, []uuid.UUID{byHand, fourth}},
		{3600 * 4, nil, 1, []uuid.UUID{fourth}},
		{0, 0, 1, []uuid.UUID{}}, // a limit below 1 counts as 1
		{0, 100000, 0, []uuid.UUID{}},
	} {
		if n := prune(step.seconds, step.limit); n != step.deleted {
			t.Errorf("step %d: deleted %d, want %d", i, n, step.deleted)
		}
		if diff := cmp.Diff(step.left, left(first, second, third, byHand, fourth)); diff != "" {
			t.Errorf("step %d: left (-want +got):\n%s", i, diff)
		}
	}
	if diff := cmp.Diff(stay, left(stay...)); diff != "" {
		t.Errorf("what is not processed (-want +got):\n%s", diff)
	}
	r.sound()
}

// D4: discarded events stay, unless told otherwise; those that halt an aggregate always.
func TestPruneDiscarded(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	old := r.insert(row{Agg: 1, Status: "discarded", Age: 9 * time.Hour})
	young := r.insert(row{Agg: 2, Status: "discarded", Age: time.Minute})
	halting := r.insert(row{Agg: 3, Status: "discarded", Age: 9 * time.Hour})
	r.exec(`insert into public.outbox_halted_aggregates (aggregate_type, aggregate_id, event_id, event_type, reason) values ('order', $1, $2, 'a', 'max_attempts')`, agg(3), halting)
	if n := value[int](r, `select public.outbox_prune(0)`); n != 0 {
		t.Errorf("deleted %d unasked", n)
	}
	if n := value[int](r, `select public.outbox_prune(0, 100, 3600)`); n != 1 {
		t.Errorf("deleted %d, want 1", n)
	}
	if diff := cmp.Diff([]uuid.UUID{young, halting}, column[uuid.UUID](r, `select id from public.outbox_events order by aggregate_id`)); diff != "" {
		t.Errorf("left without %s (-want +got):\n%s", old, diff)
	}
}

// D4: while an event is kept its key is taken; once it is pruned the key is free again.
func TestPruneEndsTheDedupeWindow(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	first := r.enqueue("k", 1)[0]
	r.ack(r.claimOne("a"))
	if again := r.enqueue("k", 1)[0]; again != first {
		t.Errorf("a second event for a key that is taken")
	}
	r.exec(`select public.outbox_prune(3600)`)
	if again := r.enqueue("k", 1)[0]; again != first {
		t.Errorf("the window ended too early")
	}
	if n := value[int](r, `select public.outbox_prune(0)`); n != 1 {
		t.Fatalf("pruned %d", n)
	}
	if again := r.enqueue("k", 1)[0]; again == first || r.event(again).Status != "pending" {
		t.Errorf("the key is not free after pruning")
	}
	r.sound()
}

// D4: two at once share the work and do not wait for each other, nor for rows that
// somebody looks at.
func TestPruneBesideOthers(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for i := range 6 {
		r.insert(row{Agg: i, Status: "processed", Age: time.Hour + time.Duration(9-i)*time.Minute})
	}
	reader, other := r.session(), r.session()
	reader.begin("read committed")
	reader.exec(`select from public.outbox_events order by created_at limit 1 for update`)
	other.begin("read committed")
	if n := value[int](other.rail, `select public.outbox_prune(0, 3)`); n != 3 {
		t.Errorf("the first deleted %d, want 3", n)
	}
	if n := value[int](r, `select public.outbox_prune(0, 3)`); n != 2 {
		t.Errorf("the second deleted %d, want the other 2", n)
	}
	other.commit()
	reader.commit()
}
