package faults

import (
	"context"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// A worker process is killed with kill -9 at each step of the protocol, and another one goes on: what had not begun keeps
// its attempt, what had not been acknowledged comes again, and what had does not. A process that calls is killed between its call
// and the commit.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for s, c := range calls {
		t.Run(string(s), func(t *testing.T) {
			r := newRig(t)
			about := c.prepare(r)
			r.exec(`create table public.before as select * from public.outbox_events`)
			r.spawn(s, 1).dies()
			r.until(unchanged + ` and not exists (select from pg_stat_activity where state like 'idle in transaction%')`)
			if got, err := c.do(context.Background(), r.pool, about); err != nil || got != c.first {
				t.Errorf("repeated: %s, %v; want %s", got, err, c.first)
			}
		})
	}
	r := newRig(t)
	doomed := r.killWorkers()
	r.older()
	next := r.spawn(heir, 4)
	r.until(allProcessed)
	next.stop()
	for s, begun := range doomed {
		t.Run(string(s), func(t *testing.T) {
			again := map[bool]int{true: 1}[matrix[s][killed].again]
			if want := map[bool]int{true: 1, false: again}[s == acked]; begun != want {
				t.Errorf("%d handlers had begun when the worker died, want %d", begun, want)
			}
			got := value[int](r, `select count(*) from public.deliveries d join public.outbox_events e on e.id = d.event_id where e.event_type = $1::text`, kinds[s].Type())
			if want := 3 + again; got != want {
				t.Errorf("%d deliveries of three events, want %d", got, want)
			}
		})
	}
	if n := value[int](r, `select count(*) from public.effects`); n != 3 {
		t.Errorf("%d effects of three transactional handlers", n)
	}
	r.verdict().expectClean(t, 3*len(kinds))
}

// killWorkers lets a worker die at each step over the first of three events of one aggregate, all at the same time: the others
// wait only once for them to be dead. It returns how many handlers had begun.
func (r *rig) killWorkers() map[step]int {
	r.Helper()
	r.spawn(watching, 1)
	doomed, begun := map[step]*process{}, map[step]int{}
	for s, kind := range kinds {
		doomed[s] = r.spawn(s, 1)
		for seq := 1; seq <= 3; seq++ {
			r.enqueue(kind.New("thing", agg(len(doomed)), uuid.NewString(), load{Seq: seq}))
		}
	}
	r.until(`exists (select from public.deliveries where worker = $1::text)`, doomed[release].name)
	r.must(doomed[release].cmd.Process.Signal(syscall.SIGTERM))
	for s, process := range doomed {
		process.dies()
		begun[s] = value[int](r, `select count(*) from public.deliveries where worker = $1::text`, process.name)
		first := value[string](r, `select status from public.outbox_events where event_type = $1::text order by created_at, id limit 1`, kinds[s].Type())
		if want := map[bool]string{true: "processed", false: "processing"}[s == acked]; first != want {
			r.Errorf("%s: the first event is %s, want %s", s, first, want)
		}
	}
	return begun
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
