package db_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// enqueueSQL takes the numbers of aggregates, and the keys; all events are of type "a".
const enqueueSQL = `select e.event_id from public.outbox_enqueue(array_fill('a'::text, array[cardinality($1::uuid[])]), $2::text[],
	array_fill('order'::text, array[cardinality($1::uuid[])]), $1::uuid[], array_fill('{}'::text, array[cardinality($1::uuid[])])) e`

// many is more events than outbox_enqueue asks for duplicates one by one.
const many = 600

func aggs(numbers ...int) []uuid.UUID {
	list := make([]uuid.UUID, len(numbers))
	for i, n := range numbers {
		list[i] = agg(n)
	}
	return list
}

// keys are n idempotency keys that begin with prefix.
func keys(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i)
	}
	return list
}

func (r *rail) enqueue(prefix string, numbers ...int) []uuid.UUID {
	r.Helper()
	return column[uuid.UUID](r, enqueueSQL, aggs(numbers...), keys(prefix, len(numbers)))
}

// outbox_enqueue writes what it is given, with the defaults of what it is not.
func TestEnqueueWrites(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	got := column[string](r, `select concat_ws(' ', e.duplicate, e.same_payload, e.event_id is not null) from public.outbox_enqueue(
		p_event_types => array['a', 'b', 'a'], p_idempotency_keys => array['k', 'k', 'l'], p_aggregate_types => array['order', 'bill', 'order'],
		p_aggregate_ids => array[$1, $2, $1]::uuid[], p_payloads => array['{"n": 1}', '[2]', 'null'],
		p_metadata => array['{"m": 1}', null, '{}'], p_delays_seconds => array[null, 60, -5]) e`, agg(1), agg(2))
	if diff := cmp.Diff([]string{"f t t", "f t t", "f t t"}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	stored := column[string](r, `select concat_ws(' ', event_type, idempotency_key, aggregate_type, aggregate_id = $1, status, attempts, payload, metadata,
		error is null, processed_at is null, available_at > clock_timestamp(), lane) from public.outbox_events order by created_at, id`, agg(1))
	want := []string{
		`a k order t pending 0 {"n": 1} {"m": 1} t t f ready`,
		`b k bill f pending 0 [2] {} t t t timed`,
		`a l order t pending 0 null {} t t f queued`,
	}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if n := len(column[uuid.UUID](r, `select event_id from public.outbox_enqueue('{}', '{}', '{}', '{}', '{}')`)); n != 0 {
		t.Errorf("no event: %d answers", n)
	}
	r.sound()
}

// D3: a duplicate is reported, with the id of the event there is and whether it says
// the same; the transaction lives. Within one call too.
func TestEnqueueDuplicates(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	s := r.session()
	s.begin("read committed")
	seen := map[string]int{} // ids, in the order in which they appear
	call := func(keys []string, payloads []string) []string {
		answers := column[string](s.rail, `select concat_ws(' ', event_id, duplicate, same_payload) from public.outbox_enqueue(
			array_fill('a'::text, array[cardinality($1::text[])]), $1, array_fill('order'::text, array[cardinality($1)]),
			array_fill($3::uuid, array[cardinality($1)]), $2)`, keys, payloads, agg(1))
		for i, answer := range answers {
			id, rest, _ := strings.Cut(answer, " ")
			if seen[id] == 0 {
				seen[id] = len(seen) + 1
			}
			answers[i] = fmt.Sprint(seen[id], " ", rest)
		}
		return answers
	}
	for i, step := range []struct{ keys, payloads, want []string }{
		{[]string{"k", "l"}, []string{`{"n":1}`, `{"n":2}`}, []string{"1 f t", "2 f t"}},
		{[]string{"k", "l", "m"}, []string{`{ "n": 1.0 }`, `{"n":3}`, `{}`}, []string{"1 t t", "2 t f", "3 f t"}},
		{[]string{"o", "o", "n", "o"}, []string{`1`, `2`, `3`, `1`}, []string{"4 f t", "4 t f", "5 f t", "4 t t"}},
	} {
		if diff := cmp.Diff(step.want, call(step.keys, step.payloads)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	s.commit()
	r.sound()
	if n := len(r.drain("a")); n != 5 {
		t.Errorf("%d events, want 5", n)
	}
}

// D3: a duplicate of what another open transaction writes waits for its end: then it is
// one, or it is not. In a call of one event and in one of many.
func TestEnqueueDuplicateOfUncommitted(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]int{"commit": 1, "rollback": 0} {
		for _, size := range []int{1, many} {
			r := newRail(t)
			a, b := r.session(), r.session()
			a.begin("read committed")
			a.enqueue("k", 1)
			var duplicates int
			b.begin("read committed")
			second := b.start(func() error {
				duplicates = value[int](b.rail, `select count(*) filter (where e.duplicate) from public.outbox_enqueue(
					array_fill('a'::text, array[cardinality($1::text[])]), $1, array_fill('order'::text, array[cardinality($1)]),
					array_fill($2::uuid, array[cardinality($1)]), array_fill('{}'::text, array[cardinality($1)])) e`, keys("k", size), agg(2))
				return nil
			})
			second.blocked(r)
			a.exec(end)
			second.succeeds()
			b.commit()
			if duplicates != want {
				t.Errorf("%d events after %s: %d duplicates, want %d", size, end, duplicates, want)
			}
			r.sound()
		}
	}
}

// Calls of many events, which are written without asking for duplicates first: with
// none, with some that exist and some that repeat within the call, and all over again.
func TestEnqueueMany(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	s := r.session()
	s.begin("read committed")
	call := func(k []string) (ids []uuid.UUID, duplicates []int) {
		numbers := make([]int, len(k))
		for i := range numbers {
			numbers[i] = i % 40
		}
		for i, answer := range column[string](s.rail, strings.Replace(enqueueSQL, "e.event_id", "concat_ws(' ', e.event_id, e.duplicate, e.same_payload)", 1), aggs(numbers...), k) {
			id, rest, _ := strings.Cut(answer, " ")
			ids = append(ids, uuid.MustParse(id))
			if rest == "t t" {
				duplicates = append(duplicates, i)
			}
		}
		return ids, duplicates
	}
	first, none := call(keys("k", many))
	if len(first) != many || len(none) != 0 {
		t.Errorf("%d answers with duplicates %v, want %d without", len(first), none, many)
	}
	mixed := append(keys("new", many), "k3", "new7", "k5")
	answers, duplicates := call(mixed)
	if diff := cmp.Diff([]int{many, many + 1, many + 2}, duplicates); diff != "" {
		t.Errorf("duplicates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uuid.UUID{first[3], answers[7], first[5]}, answers[many:]); diff != "" {
		t.Errorf("ids of the duplicates (-want +got):\n%s", diff)
	}
	if again, all := call(mixed); len(all) != len(mixed) || !cmp.Equal(again, answers) {
		t.Errorf("again: %d duplicates of %d", len(all), len(mixed))
	}
	s.commit()
	r.sound()
	if n := value[int](r, `select count(distinct idempotency_key) from public.outbox_events where id = any($1)`, answers); n != many+2 {
		t.Errorf("%d keys under the ids answered", n)
	}
	r.inOrderOfIDs(append(first, answers[:many]...))
}

// inOrderOfIDs drains the rail and compares each aggregate's order with that of the ids,
// which are all there is.
func (r *rail) inOrderOfIDs(ids []uuid.UUID) {
	r.Helper()
	want, came := map[uuid.UUID][]uuid.UUID{}, map[uuid.UUID][]uuid.UUID{}
	for _, id := range ids {
		want[r.event(id).AggregateID] = append(want[r.event(id).AggregateID], id)
	}
	for _, id := range r.drain("a") {
		came[r.event(id).AggregateID] = append(came[r.event(id).AggregateID], id)
	}
	if diff := cmp.Diff(want, came); diff != "" {
		r.Errorf("order by aggregate (-enqueued +came):\n%s", diff)
	}
}

// A duplicate that is deleted before the answer is no reason to call the event written:
// the caller is told to do it again.
func TestEnqueueDuplicateVanishes(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{Key: "k0", Status: "processed"})
	// Deletes within the same transaction what another session would delete just then.
	r.exec(`create function public.vanish() returns trigger language plpgsql as $$
		begin delete from public.outbox_events where status = 'processed'; return null; end $$;
		create trigger vanish after insert on public.outbox_events for each statement execute function public.vanish()`)
	refused := r.fails(enqueueSQL, aggs(1), keys("k", 1))
	if refused.Code != "40001" || refused.Message != "outbox_enqueue_duplicate_vanished" {
		t.Errorf("got %v", refused)
	}
	r.exec(`drop trigger vanish on public.outbox_events; delete from public.outbox_events`)
	if got := r.enqueue("k", 1); len(got) != 1 || r.event(got[0]).Status != "pending" {
		t.Errorf("the second try gave %v", got)
	}
}

// Of the events of one kind in one call, whichever is the first to be written stands
// ahead of the others, whatever its time; duplicates in any place do not tear the row.
func TestEnqueueFiling(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for name, c := range map[string]struct {
		keys   []string
		delays []float64
		want   int
	}{
		"first is a duplicate":        {[]string{"old", "a", "b"}, []float64{0, 0, 0}, 2},
		"first two are":               {[]string{"old", "old", "a", "b"}, []float64{0, 0, 0, 0}, 2},
		"middle is a duplicate":       {[]string{"a", "old", "b"}, []float64{0, 0, 0}, 2},
		"last is a duplicate":         {[]string{"a", "b", "old"}, []float64{0, 0, 0}, 2},
		"all but one are":             {[]string{"old", "a", "old"}, []float64{0, 0, 0}, 1},
		"all are":                     {[]string{"old", "old"}, []float64{0, 0}, 0},
		"duplicate, then delayed":     {[]string{"old", "a", "b"}, []float64{0, 9, 0}, 2},
		"delayed duplicate":           {[]string{"old", "a", "b"}, []float64{9, 0, 0}, 2},
		"first is delayed":            {[]string{"a", "b", "c"}, []float64{9, 0, 0}, 3},
		"middle is delayed":           {[]string{"a", "b", "c"}, []float64{0, 9, 0}, 3},
		"all are delayed":             {[]string{"a", "b", "c"}, []float64{9, 8, 7}, 3},
		"its own duplicate is first":  {[]string{"a", "a", "b"}, []float64{0, 0, 0}, 2},
		"own duplicate, delayed then": {[]string{"a", "a", "b"}, []float64{9, 0, 0}, 2},
	} {
		for _, present := range []string{"nothing", "a head", "a queue"} {
			r.exec(`delete from public.outbox_events`)
			r.insert(row{Key: "old", Status: "processed", Age: time.Hour})
			if present != "nothing" {
				r.insert(row{Agg: 1, Key: "head", Age: time.Minute})
			}
			if present == "a queue" {
				r.insert(row{Agg: 1, Key: "queued", Age: time.Second})
				r.exec(`select public.outbox_release_unprocessed(array[id], array[metadata ->> 'claimToken']) from public.outbox_claim_batch(array['a'])`)
			}
			n := len(c.keys)
			r.exec(`select from public.outbox_enqueue(array_fill('a'::text, array[$4::integer]), $1, array_fill('order'::text, array[$4]),
				array_fill($2::uuid, array[$4]), array_fill('{}'::text, array[$4]), null, $3)`, c.keys, agg(1), c.delays, n)
			r.sound()
			want := c.want + map[string]int{"nothing": 0, "a head": 1, "a queue": 2}[present]
			if got := len(r.drain("a")); got != want {
				t.Errorf("%s, behind %s: drained %d, want %d", name, present, got, want)
			}
		}
	}
}

// D2: the same keys in opposite order, in two calls at once: no deadlock.
func TestEnqueueOppositeOrders(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	a, b := r.session(), r.session()
	for round := range 30 {
		k := keys(fmt.Sprint("round", round, "-"), 40)
		backwards := make([]string, len(k))
		for i := range k {
			backwards[i] = k[len(k)-1-i]
		}
		up, down := make([]int, len(k)), make([]int, len(k))
		for i := range k {
			up[i], down[i] = i, len(k)-1-i+500*(round%2) // the same aggregates, and others
		}
		first := a.startExec(enqueueSQL, aggs(up...), k)
		second := b.startExec(enqueueSQL, aggs(down...), backwards)
		first.succeeds()
		second.succeeds()
	}
	if n := value[int](r, `select count(*) from public.outbox_events`); n != 30*40 {
		t.Errorf("%d events, want each key once", n)
	}
	r.sound()
}

// D2, step by step, for few events and for many: both calls have written half of their
// keys, were they to take them as they come, when they get to the one that a third has.
func TestEnqueueOppositeOrdersMeet(t *testing.T) {
	t.Parallel()
	for _, size := range []int{40, many} {
		r := newRail(t)
		holder, a, b := r.session(), r.session(), r.session()
		k := keys("k", size)
		backwards := slices.Clone(k)
		slices.Reverse(backwards)
		holder.begin("read committed")
		column[uuid.UUID](holder.rail, enqueueSQL, aggs(3), []string{k[size/2]})
		first := a.startExec(enqueueSQL, slices.Repeat(aggs(1), size), k)
		first.blocked(r)
		second := b.startExec(enqueueSQL, slices.Repeat(aggs(2), size), backwards)
		second.blocked(r)
		holder.exec(`rollback`)
		first.succeeds()
		second.succeeds()
		if n := value[int](r, `select count(*) from public.outbox_events`); n != size {
			t.Errorf("%d events, want each of the %d keys once", n, size)
		}
		r.sound()
	}
}
