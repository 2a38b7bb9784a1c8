package db_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// enqueueSQL takes the numbers of aggregates, and the keys; all events are of type "a".
const enqueueSQL = `select e.event_id from public.outbox_enqueue(array_fill('a'::text, array[cardinality($1::uuid[])]), $2::text[],
	array_fill('order'::text, array[cardinality($1::uuid[])]), $1::uuid[], array_fill('{}'::text, array[cardinality($1::uuid[])])) e`

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
// one, or it is not.
func TestEnqueueDuplicateOfUncommitted(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]bool{"commit": true, "rollback": false} {
		r := newRail(t)
		a, b := r.session(), r.session()
		a.begin("read committed")
		a.enqueue("k", 1)
		var duplicate bool
		b.begin("read committed")
		second := b.start(func() error {
			duplicate = value[bool](b.rail, `select duplicate from public.outbox_enqueue(array['a'], array['k0'], array['order'], array[$1]::uuid[], array['{}'])`, agg(2))
			return nil
		})
		second.blocked(r)
		a.exec(end)
		second.succeeds()
		b.commit()
		if duplicate != want {
			t.Errorf("after %s: duplicate %v", end, duplicate)
		}
		r.sound()
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
