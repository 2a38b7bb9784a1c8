package faults

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKilledAtEachStep: a worker process is killed with kill -9 at a step of the protocol, and another one goes on. What had
// not begun keeps its attempt, what had not been acknowledged comes again, and what had does not.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at step
		// begun is how many handlers had begun at the kill; repeats how many deliveries that makes in all, of three events.
		begun, deliveries int
	}{
		{claimed, 0, 3},
		{started, 1, 4},
		{handled, 1, 4},
		{acked, 1, 3},
	} {
		t.Run(string(c.at), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			doomed := r.spawn(c.at, 1)
			r.enqueue(draft(1, load{Seq: 1}), draft(1, load{Seq: 2}), draft(1, load{Seq: 3}))
			doomed.dies()
			if n := value[int](r, `select count(*) from public.deliveries`); n != c.begun {
				t.Errorf("%d handlers had begun, want %d", n, c.begun)
			}
			r.older()
			next := r.spawn(never, 1)
			r.until(allProcessed)
			next.stop()
			if n := value[int](r, `select count(*) from public.deliveries`); n != c.deliveries {
				t.Errorf("%d deliveries, want %d", n, c.deliveries)
			}
			r.verdict().expectClean(t, 3)
		})
	}
}

// steady means that so many workers have lived for long enough to judge others: after an outage all have been silent.
const steady = `(select count(*) from public.outbox_workers where seen_at - started_at > interval '14 s') = $1::integer`

// TestL9_TakeoverWithin15Seconds: leases run for minutes, and what a killed process held is another's within 15 seconds.
func TestL9_TakeoverWithin15Seconds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for n := range 5 {
		r.enqueue(draft(n, load{Seq: 1, Hang: true}))
	}
	doomed := r.spawn(never, 10)
	r.until(`(select count(*) from public.deliveries) = 5 and exists (select from public.outbox_workers)`)
	heir := r.spawn(never, 10)
	r.until(steady, 2)
	if left := value[float64](r, `select extract(epoch from min(available_at) - clock_timestamp())::float8 from public.outbox_events`); left < 200 {
		t.Fatalf("the leases run for %.0f s more; too short to tell a takeover from their end", left)
	}
	doomed.murder()
	r.until(`(select count(*) from public.deliveries where worker = $1::text) = 5`, heir.name)
	took := value[float64](r, `select extract(epoch from (select max(at) from public.deliveries) - (select at from public.killed))::float8`)
	if took > 15 {
		t.Errorf("the takeover took %.1f s", took)
	}
	want := []int{1, 5} // the attempt that the death cost was given back
	if got := []int{value[int](r, `select max(attempts) from public.outbox_events`), value[int](r, `select sum(crashes)::integer from public.outbox_events`)}; !cmp.Equal(want, got) {
		t.Errorf("attempts and crashes %v, want %v", got, want)
	}
	t.Logf("taken over %.1f s after the kill", took)
}

// TestPoisonRunsAloneAndIsDiscarded: an event that brings its process down is run alone after the third time, and
// discarded after the fourth; those beside it are delivered.
func TestPoisonRunsAloneAndIsDiscarded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	poison := r.enqueue(draft(0, load{Seq: 1, Kill: true}))[0]
	for n := 1; n <= 20; n++ {
		r.enqueue(draft(n, load{Seq: 1}))
	}
	r.spawn(watching, 1)
	r.until(steady, 1)
	for range 4 {
		r.spawn(never, 4).dies()
		r.older()
	}
	last := r.spawn(never, 4)
	r.until(`(select status = 'discarded' and metadata ->> 'discardReason' = 'crashed' from public.outbox_events where id = $1::uuid)`, poison)
	r.until(`not exists (select from public.outbox_events where status not in ('processed', 'discarded'))`)
	last.stop()
	beside := value[[]int32](r, `select array_agg(beside order by id) from public.deliveries where event_id = $1::uuid`, poison)
	if len(beside) != 4 || beside[3] != 1 {
		t.Errorf("it ran beside %v others, itself included; want four runs, the last one alone", beside)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'processed' and attempts = 1`); n != 20 {
		t.Errorf("%d of the others were processed at their first attempt, want 20", n)
	}
}
