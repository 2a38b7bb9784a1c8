package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// written gives the ids of the aggregate's events in the order of their payload n, that
// is as they were written.
func (r *rail) written(aggregate uuid.UUID) []uuid.UUID {
	r.Helper()
	return column[uuid.UUID](r, `select id from public.outbox_events where aggregate_id = $1 order by (payload ->> 'n')::integer`, aggregate)
}

// inWrittenOrder drains the rail and compares each aggregate's order.
func (r *rail) inWrittenOrder(aggregates int) {
	r.Helper()
	came := map[uuid.UUID][]uuid.UUID{}
	for _, id := range r.drain("a", "b") {
		came[r.event(id).AggregateID] = append(came[r.event(id).AggregateID], id)
	}
	if len(came) != aggregates {
		r.Errorf("events of %d aggregates came, want %d", len(came), aggregates)
	}
	for aggregate, order := range came {
		if diff := cmp.Diff(r.written(aggregate), order); diff != "" {
			r.Errorf("aggregate %s (-written +came):\n%s", aggregate, diff)
		}
	}
}

const plainColumns = `public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)`

// insertRange writes events $1..$2-1 by plain INSERT, the nth for aggregate n % 40.
const insertRange = `insert into ` + plainColumns + ` select 'order', lpad(to_hex(n % 40), 32, '0')::uuid,
	case when n % 3 = 1 then 'b' else 'a' end, n::text, format('{"n": %s}', n)::jsonb from generate_series($1::integer, $2 - 1) n`

// Where ours must be better, 1, and O1: order inside a transaction is statement order,
// however the rows are written; 40 aggregates, three events each, two types.
func TestOrderInsideTransaction(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*session){
		"a statement for each event": func(s *session) {
			for n := range 120 {
				s.exec(insertRange, n, n+1)
			}
		},
		"three statements of 40 rows": func(s *session) {
			for n := range 3 {
				s.exec(insertRange, 40*n, 40*n+40)
			}
		},
		"one INSERT of 120 rows": func(s *session) {
			s.exec(insertRange, 0, 120)
		},
		"one INSERT, half of it duplicates": func(s *session) {
			s.exec(insertRange, 0, 60)
			s.exec(insertRange+` on conflict do nothing`, 0, 120)
		},
		"COPY": func(s *session) {
			s.copyIn(120)
		},
		"enqueue in one call": func(s *session) {
			s.enqueueRange(0, 120)
		},
		"enqueue in three calls": func(s *session) {
			s.enqueueRange(0, 40)
			s.enqueueRange(40, 80)
			s.enqueueRange(80, 120)
		},
		"enqueue and INSERT by turns": func(s *session) {
			s.enqueueRange(0, 40)
			s.exec(insertRange, 40, 80)
			s.enqueueRange(80, 120)
		},
		"enqueue of many and INSERT by turns": func(s *session) {
			s.enqueueRange(0, many)
			s.exec(insertRange, many, many+40)
			s.enqueueRange(many+40, 2*many+40)
		},
		"with savepoints": func(s *session) {
			for n := range 120 {
				s.exec(`savepoint s`)
				s.exec(insertRange, n, n+1)
				if n%2 == 0 {
					s.exec(`release savepoint s`)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			s := r.session()
			s.begin("read committed")
			write(s)
			s.commit()
			r.sound()
			r.inWrittenOrder(40)
		})
	}
}

// enqueueRange writes events from..to-1, the nth for aggregate n % 40.
func (s *session) enqueueRange(from, to int) {
	s.Helper()
	s.exec(`select from public.outbox_enqueue(
		array(select case when n % 3 = 1 then 'b' else 'a' end from generate_series($1::integer, $2 - 1) n), array(select n::text from generate_series($1::integer, $2 - 1) n),
		array(select 'order' from generate_series($1::integer, $2 - 1) n), array(select lpad(to_hex(n % 40), 32, '0')::uuid from generate_series($1::integer, $2 - 1) n),
		array(select format('{"n": %s}', n) from generate_series($1::integer, $2 - 1) n))`, from, to)
}

func (s *session) copyIn(n int) {
	s.Helper()
	_, err := s.conn.CopyFrom(context.Background(), pgx.Identifier{"public", "outbox_events"},
		[]string{"aggregate_type", "aggregate_id", "event_type", "idempotency_key", "payload"},
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{"order", agg(i % 40), string(rune('a' + i%2)), fmt.Sprint(i), map[string]int{"n": i}}, nil
		}))
	if err != nil {
		s.Fatal(err)
	}
}

// Where ours must be better, 1 and 2, and O2: the writer that began first but wrote
// second goes second.
func TestOrderBetweenWriters(t *testing.T) {
	t.Parallel()
	const plain = `insert into ` + plainColumns + ` values ('order', $1, 'a', $2, $3)`
	const enqueue = `select from public.outbox_enqueue(array['a'], array[$2::text], array['order'], array[$1]::uuid[], array[$3::jsonb]::text[])`
	for name, c := range map[string]struct {
		write     string
		clockBack bool
	}{"plain INSERT": {plain, false}, "enqueue": {enqueue, false}, "enqueue, the clock is set back": {enqueue, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			r.exec(`create table public.business (id integer); insert into public.business values (1)`)
			first, second := r.session(), r.session()
			first.begin("read committed")
			value[int](first.rail, `select 1`)
			second.begin("read committed")
			second.exec(`update public.business set id = id`)
			locked := first.startExec(`update public.business set id = id`)
			locked.blocked(r)
			if c.clockBack { // as if it had stood an hour ahead until now
				r.exec(`select setval('public.outbox_stamp_seq', (extract(epoch from clock_timestamp()) * 1000000)::bigint + 3600000000)`)
			}
			second.exec(c.write, agg(1), "v1", `{"n": 1}`)
			second.commit()
			locked.succeeds()
			first.exec(c.write, agg(1), "v2", `{"n": 2}`)
			first.commit()
			if c.clockBack && r.earliest() < 59*time.Minute {
				t.Errorf("stamped %v ahead, below what had been given", r.earliest())
			}
			r.inWrittenOrder(1)
		})
	}
}

// earliest is how far ahead of the clock the lowest stamp lies.
func (r *rail) earliest() time.Duration {
	r.Helper()
	return value[time.Duration](r, `select min(created_at) - clock_timestamp() from public.outbox_events`)
}

// Where ours must be better, 2: stamps grow strictly per aggregate, in the order in
// which the writers got the aggregate, whatever the clock does meanwhile.
func TestOrderStampsGrow(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`create sequence public.turn`)
	const jump = `select setval('public.outbox_stamp_seq', greatest(last_value, (extract(epoch from clock_timestamp()) * 1000000)::bigint) + 3600000000)
		from public.outbox_stamp_seq` // the clock jumps back an hour, seen from the stamps
	r.exec(jump)
	ahead := r.session()
	done := make([]*pending, 4)
	for w := range done {
		s := r.session()
		done[w] = s.start(func() error {
			for n := range 150 { // the aggregate is locked when its turn is taken
				s.exec(`do $$ declare t bigint; begin
					perform public.outbox_enqueue(array['lock'], array[gen_random_uuid()::text], array['order'], array['` + agg(n%5).String() + `']::uuid[], array['{}']);
					t := nextval('public.turn');
					perform public.outbox_enqueue(array['a', 'b', 'a'], array[gen_random_uuid()::text, gen_random_uuid()::text, gen_random_uuid()::text],
						array['order', 'order', 'order'], array_fill('` + agg(n%5).String() + `'::uuid, array[3]),
						array[format('{"n": %s}', t * 3), format('{"n": %s}', t * 3 + 1), format('{"n": %s}', t * 3 + 2)]);
					end $$`)
			}
			return nil
		})
	}
	for range 20 {
		ahead.exec(jump)
	}
	for _, d := range done {
		d.succeeds()
	}
	wrong := value[int](r, `select count(*) from (
		select (created_at, id) <= lag((created_at, id)) over w or created_at <= lag(created_at) over w as wrong from public.outbox_events where event_type <> 'lock'
		window w as (partition by aggregate_id order by (payload ->> 'n')::bigint)) x where wrong`)
	if r.earliest() < 59*time.Minute {
		t.Errorf("stamped %v ahead, below what had been given", r.earliest())
	}
	if wrong > 0 {
		t.Errorf("%d of 1800 events do not stand after the one before", wrong)
	}
	r.sound()
}

// O3: while one writer is open the second waits; in flight is one of the aggregate's
// events at most.
func TestOrderOpenWriter(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	first, second := r.session(), r.session()
	first.begin("read committed")
	v1 := first.enqueue("v1-", 1)[0]
	var v2 uuid.UUID
	waiting := second.start(func() error { v2 = second.enqueue("v2-", 1)[0]; return nil })
	waiting.blocked(r)
	if n := len(r.claim("a")); n != 0 {
		t.Errorf("claimed %d that nobody has committed", n)
	}
	first.commit()
	waiting.succeeds()
	if diff := cmp.Diff([]uuid.UUID{v1}, ids(r.claim("a"))); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	r.exec(`select public.outbox_mark_processed(id, metadata ->> 'claimToken') from public.outbox_events where id = $1`, v1)
	if diff := cmp.Diff([]uuid.UUID{v2}, ids(r.claim("a"))); diff != "" {
		t.Errorf("then claimed (-want +got):\n%s", diff)
	}
}

// O4: a claimed batch comes oldest first, also when its rows are read by ctid in another
// order. (Each contract test compares orders too.)
func TestOrderOfBatch(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into public.outbox_events (created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		select clock_timestamp() - random() * interval '1 hour', 'order', gen_random_uuid(), 'a', i::text, '{}' from generate_series(1, 300) i`)
	want := column[uuid.UUID](r, `select id from public.outbox_events order by created_at, id`)
	for n := 0; n < 300; n += 100 {
		if diff := cmp.Diff(want[n:n+100], ids(r.claim("a"))); diff != "" {
			t.Errorf("batch (-want +got):\n%s", diff)
		}
	}
}

// O9: one transaction enqueues 100,000 events of 100,000 aggregates with a bounded number
// of locks.
func TestOrderHundredThousand(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	s := r.session()
	s.begin("read committed")
	for n := 0; n < 100000; n += 10000 {
		s.exec(`select from public.outbox_enqueue(array_fill('a'::text, array[10000]), array(select n::text from generate_series($1::integer, $1 + 9999) n),
			array_fill('order'::text, array[10000]), array(select md5(n::text)::uuid from generate_series($1::integer, $1 + 9999) n), array_fill('{}'::text, array[10000]))`, n)
	}
	locks := value[int](r, `select count(*) from pg_locks where pid = $1`, s.conn.PgConn().PID())
	s.commit()
	if n := value[int](r, `select count(*) from public.outbox_events where lane = 'ready'`); n != 100000 || locks > 100 {
		t.Errorf("%d events with %d locks", n, locks)
	}
}

// O9: two transactions enqueue to X, Y and Y, X in several calls. The server ends one of
// the two, and trying again is the way out; within one call it cannot happen.
func TestOrderTwoAggregates(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	a, b := r.session(), r.session()
	for _, s := range []*session{a, b} {
		s.exec(`set deadlock_timeout = '50ms'`)
		s.begin("read committed")
	}
	a.enqueue("a1-", 1)
	b.enqueue("b1-", 2)
	first := a.startExec(enqueueSQL, aggs(2), keys("a2-", 1))
	first.blocked(r)
	second := b.startExec(enqueueSQL, aggs(1), keys("b2-", 1))
	errs := map[*session]error{a: nil, b: nil}
	errs[b] = second.wait()
	if errs[b] != nil {
		b.exec(`rollback`)
	}
	if errs[a] = first.wait(); errs[a] != nil {
		a.exec(`rollback`)
	}
	for s, err := range errs {
		if err == nil {
			s.exec(`commit`)
		}
	}
	loser := a
	if errs[b] != nil {
		loser = b
	}
	if sqlState(errs[loser]) != "40P01" {
		t.Fatalf("errors %v", errs)
	}
	loser.enqueue("again-", 2, 1)
	r.sound()
	if n := len(r.drain("a")); n != 4 {
		t.Errorf("%d events, want 4", n)
	}
}
