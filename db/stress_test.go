package db_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// envStress makes the stress test last longer than its default.
const envStress = "PGRAIL_STRESS"

// A load is one run of the stress test. Its sessions stop between two actions.
type load struct {
	*rail
	seed    uint64
	stop    atomic.Bool
	wg      sync.WaitGroup
	mu      sync.Mutex
	retries map[string]int // by actor and SQLSTATE
	done    map[string]int // actions, by name
}

// An actor is a session of a load with dice of its own.
type actor struct {
	*session
	load *load
	dice *rand.Rand
	name string
}

// run repeats act until the load stops. Deadlocks and failures to serialize are part of
// a life beside operators, and are tried again; nothing else is.
func (l *load) run(name string, act func(*actor) error) {
	s := l.session()
	s.exec(`set deadlock_timeout = '20ms'`)
	l.mu.Lock()
	a := &actor{s, l, rand.New(rand.NewPCG(l.seed, uint64(len(l.done)))), name}
	l.done[name] = 0
	l.mu.Unlock()
	l.wg.Go(func() {
		for !l.stop.Load() {
			err := act(a)
			if !a.conn.PgConn().IsClosed() && a.conn.PgConn().TxStatus() != 'I' {
				_, _ = a.conn.Exec(context.Background(), `rollback`)
			}
			state := sqlState(err)
			l.mu.Lock()
			l.done[name]++
			if err != nil {
				l.retries[name+" "+state]++
			}
			l.mu.Unlock()
			if err != nil && state != "40001" && state != "40P01" {
				l.stop.Store(true)
				l.Errorf("seed %d: %s: %v", l.seed, name, err)
			}
		}
	})
}

func (a *actor) try(sql string, args ...any) error {
	_, err := a.conn.Exec(context.Background(), sql, args...)
	return err
}

// oneOf throws the dice.
func oneOf[T any](a *actor, list ...T) T { return list[a.dice.IntN(len(list))] }

// Aggregates 0 to 19 have one producer each, which writes plain INSERTs. Those from 20 to
// 39 are shared by enqueueing ones, and redriven. In those from 90 on an operator does
// what changes the order itself: there it is only asked that nothing is lost or stuck.
const disorderly = 90

func (a *actor) plain(from, to int) error {
	var values []string
	aggregate := agg(from + a.dice.IntN(to-from))
	for range 1 + a.dice.IntN(5) {
		due := oneOf(a, "0", "0", "0", "0.05")
		values = append(values, fmt.Sprintf(`('order', '%s', '%s', gen_random_uuid(), '{}', clock_timestamp() + interval '%s s')`, aggregate, oneOf(a, "a", "b", "c"), due))
	}
	insert := `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, available_at) values ` + strings.Join(values, ", ")
	return a.try(oneOf(a, insert, `begin; `+insert+`; commit`, `begin; `+insert+`; savepoint s; `+strings.ReplaceAll(insert, "'a'", "'b'")+`; rollback to s; `+insert+`; commit`,
		`begin; `+insert+`; rollback`))
}

func (a *actor) enqueueSome() error {
	n := 1 + a.dice.IntN(6)
	kinds, keys, of, delays := make([]string, n), make([]string, n), make([]uuid.UUID, n), make([]float64, n)
	for i := range n {
		kinds[i], of[i], delays[i] = oneOf(a, "a", "b", "c"), agg(20+a.dice.IntN(20)), oneOf(a, 0, 0, 0, 0.05)
		if keys[i] = uuid.NewString(); a.dice.IntN(8) == 0 {
			keys[i] = fmt.Sprint("often ", a.dice.IntN(20))
		}
	}
	return a.try(`select from public.outbox_enqueue($1, $2, array_fill('order'::text, array[cardinality($1::text[])]), $3, array_fill('{}'::text, array[cardinality($1)]), null, $4)`,
		kinds, keys, of, delays)
}

// consumers are the eight: wide claims and the contract's batch, all types and some, with
// and without knowledge of the others.
var consumers = map[string]consumer{
	"wide 1": {claimed: []string{"a", "b", "c"}}, "wide 2": {claimed: []string{"a", "b", "c"}}, "wide 3": {claimed: []string{"c", "b", "a"}},
	"batch 1": {claimed: []string{"a", "b", "c"}}, "batch 2": {claimed: []string{"b", "c", "a"}, known: []string{"a"}},
	"batch a": {claimed: []string{"a"}}, "batch b": {claimed: []string{"b"}, known: []string{"a", "c"}}, "wide c": {claimed: []string{"c"}, known: []string{"a"}},
}

func (a *actor) consume() error {
	c := consumers[a.name]
	call := `select id, metadata ->> 'claimToken' from public.outbox_claim_batch($1, $2, $3)`
	if strings.HasPrefix(a.name, "wide") {
		call = `select id, metadata ->> 'claimToken' from public.outbox_claim_events($1, $2, $3, 300, 8, p_many => 3)`
	}
	inTransaction := a.dice.IntN(4) == 0
	if inTransaction {
		if err := a.try(`begin isolation level ` + oneOf(a, "read committed", "read committed", "repeatable read", "serializable")); err != nil {
			return err
		}
	}
	rows, err := a.conn.Query(context.Background(), call, c.claimed, c.known, 1+a.dice.IntN(30))
	if err != nil {
		return err
	}
	var ids []uuid.UUID
	var tokens []string
	for rows.Next() {
		var id uuid.UUID
		var token string
		if err := rows.Scan(&id, &token); err != nil {
			return err
		}
		ids, tokens = append(ids, id), append(tokens, token)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(ids) == 0 && !inTransaction {
		return nil
	}
	if inTransaction && (len(ids) == 0 || a.dice.IntN(3) == 0) {
		return a.try(oneOf(a, `commit`, `rollback`)) // and never heard of again
	}
	if err := a.end(ids, tokens); err != nil {
		return err
	}
	if inTransaction {
		return a.try(oneOf(a, `commit`, `commit`, `rollback`))
	}
	return nil
}

// end gives what was claimed one of the ends there are.
func (a *actor) end(ids []uuid.UUID, tokens []string) error {
	switch a.dice.IntN(12) {
	case 0:
		return a.try(`select public.outbox_release_unprocessed($1, $2, $3)`, ids, tokens, oneOf(a, 0, 0, 1))
	case 1:
		return a.try(`select public.outbox_mark_failed(i, t, 'trouble', $3, 5, 5, 8, 60) from unnest($1::uuid[], $2::text[]) u(i, t)`, ids, tokens, oneOf(a, "retry", "snooze", "discard"))
	case 2, 3:
		outcomes, delays := make([]string, len(ids)), make([]*int, len(ids))
		for i := range ids {
			outcomes[i] = oneOf(a, "retry", "retry", "snooze", "discard")
			if a.dice.IntN(3) > 0 {
				delays[i] = new(int)
			}
		}
		return a.try(`select public.outbox_mark_failed_many($1, $2, $2, $3, null, $4)`, ids, tokens, outcomes, delays)
	case 4:
		return nil // left alone until an operator ends the lease
	case 5:
		if err := a.try(`select public.outbox_extend_leases($1, $2, 600)`, ids, tokens); err != nil {
			return err
		}
	case 6:
		return a.try(`select public.outbox_mark_processed(i, t) from unnest($1::uuid[], $2::text[]) u(i, t)`, ids, tokens)
	}
	return a.try(`select public.outbox_mark_processed_many($1, $2)`, ids, tokens)
}

// operate does by hand what operators do, to a few events at a time.
func (a *actor) operate() error {
	some := func(condition string) string {
		return fmt.Sprintf(`id in (select id from public.outbox_events where %s and get_byte(uuid_send(aggregate_id), 15) < %d order by random() limit %d)`, condition, disorderly, 1+a.dice.IntN(8))
	}
	const active = `status in ('pending', 'failed', 'processing')`
	return a.try(oneOf(a,
		`update public.outbox_events set available_at = clock_timestamp() where `+some(`status = 'processing'`),
		`update public.outbox_events set available_at = clock_timestamp() where `+some(`status = 'failed'`),
		`update public.outbox_events set available_at = clock_timestamp() where lane = 'timed' and status = 'failed'`,
		`update public.outbox_events set available_at = clock_timestamp() + interval '50 ms' where `+some(active),
		`update public.outbox_events set status = 'discarded' where `+some(active),
		`update public.outbox_events set status = 'processed', processed_at = now() where `+some(active),
		`update public.outbox_events set status = 'pending' where `+some(active),
		`update public.outbox_events set status = 'failed', error = 'by hand' where `+some(active),
		`update public.outbox_events set attempts = 9 where `+some(`status in ('pending', 'failed')`),
		`update public.outbox_events set metadata = metadata || '{"seen": true}' where `+some(active),
		`delete from public.outbox_events where `+some(active),
		`delete from public.outbox_events where `+some(`status = 'processed'`)))
}

// disorder does what changes the order of events.
func (a *actor) disorder() error {
	some := fmt.Sprintf(`id in (select id from public.outbox_events where get_byte(uuid_send(aggregate_id), 15) >= %d order by random() limit %d)`, disorderly, 1+a.dice.IntN(4))
	return a.try(oneOf(a,
		`update public.outbox_events set status = 'pending' where `+some,
		`update public.outbox_events set created_at = clock_timestamp() + (random() - 0.5) * interval '1 s' where `+some,
		`update public.outbox_events set event_type = case event_type when 'a' then 'b' else 'a' end where `+some,
		`update public.outbox_events set aggregate_id = '`+agg(disorderly+a.dice.IntN(5)).String()+`' where `+some,
		`update public.outbox_events set id = gen_random_uuid() where `+some,
		`delete from public.outbox_events where `+some))
}

func (a *actor) redriveSome() error {
	return a.try(`select public.outbox_redrive(array(select id from public.outbox_events where status = 'discarded'
		and get_byte(uuid_send(aggregate_id), 15) between 20 and 39 order by random() limit 5), 'me', 'stress')`)
}

// Eight consumers, producers of both kinds, operators, redrive, prune and heal at once.
// While they work, every state that anybody can see is sound; afterwards nothing is lost
// or stuck, and the history shows every aggregate in order, one event at a time.
func TestStress(t *testing.T) {
	t.Parallel()
	length := 10 * time.Second
	if text, ok := os.LookupEnv(envStress); ok {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s=%q must be a duration", envStress, text)
		}
	}
	r := newRail(t)
	r.exec(historySchema)
	l := &load{rail: r, seed: rand.Uint64(), retries: map[string]int{}, done: map[string]int{}}
	t.Logf("seed %d", l.seed)
	for _, name := range slices.Sorted(maps.Keys(consumers)) {
		l.run(name, func(a *actor) error {
			if err := a.try(`select set_config('test.claimer', $1, false)`, a.name); err != nil {
				return err
			}
			return a.consume()
		})
	}
	l.run("plain 1", paced(func(a *actor) error { return a.plain(0, 10) }))
	l.run("plain 2", paced(func(a *actor) error { return a.plain(10, 20) }))
	l.run("plain 3", paced(func(a *actor) error { return a.plain(disorderly, disorderly+5) }))
	l.run("enqueue 1", paced((*actor).enqueueSome))
	l.run("enqueue 2", paced((*actor).enqueueSome))
	l.run("operator", (*actor).operate)
	l.run("disorder", (*actor).disorder)
	l.run("redrive", (*actor).redriveSome)
	l.run("prune", func(a *actor) error { return a.try(`select public.outbox_prune(0.5, 50)`) })
	l.run("heal", func(a *actor) error { return a.try(`select public.outbox_heal(50)`) })
	for end := time.Now().Add(length); time.Now().Before(end) && !l.stop.Load(); {
		l.watch()
	}
	l.stop.Store(true)
	l.wg.Wait()
	l.settle()
}

// paced lets a producer write only while no more than 1500 events wait.
func paced(produce func(*actor) error) func(*actor) error {
	return func(a *actor) error {
		var waiting int
		err := a.conn.QueryRow(context.Background(), `select count(*) from public.outbox_events where status in ('pending', 'failed', 'processing')`).Scan(&waiting)
		if err != nil || waiting > 1500 {
			return err
		}
		return produce(a)
	}
}

// watch looks at one state of the rail.
func (l *load) watch() {
	l.Helper()
	if found := l.findings(); len(found) > 0 {
		l.stop.Store(true)
		l.Errorf("seed %d: outbox_check() finds in the midst of it\n%s", l.seed, strings.Join(found, "\n"))
		l.Logf("its aggregate's history:\n%s", strings.Join(column[string](l.rail, `select to_jsonb(h)::text from public.history h where aggregate =
			(select aggregate from public.history where id::text = right($1, 36) order by seq desc limit 1) order by seq`, found[0]), "\n"))
	}
}

func (l *load) settle() {
	l.Helper()
	l.Logf("actions %v", l.done)
	l.Logf("tried again %v", l.retries)
	l.watch()
	if healed := value[int](l.rail, `select healed from public.outbox_rail`); healed > 0 {
		l.Errorf("seed %d: %d marks had to be healed", l.seed, healed)
	}
	for _, wrong := range replay(l.history(), consumers, func(id uuid.UUID) bool { return id[15] >= disorderly }) {
		l.Errorf("seed %d: %s", l.seed, wrong)
	}
	if _, err := l.drained("a", "b", "c"); err != nil {
		l.Errorf("seed %d: %v", l.seed, err)
	}
	l.watch()
	l.balance()
}

// balance compares what was written with what has become of it.
func (l *load) balance() {
	l.Helper()
	type figures struct{ written, deleted, left, processed int }
	var f figures
	f.written = value[int](l.rail, `select count(*) from public.history where op = 'INSERT'`)
	f.deleted = value[int](l.rail, `select count(*) from public.history where op = 'DELETE'`)
	f.left = value[int](l.rail, `select count(*) from public.outbox_events`)
	f.processed = value[int](l.rail, `select count(distinct id) from public.history where status = 'processed' and op = 'UPDATE'`)
	l.Logf("%+v", f)
	if f.written != f.deleted+f.left || f.processed < f.written/10 {
		l.Errorf("seed %d: the books do not balance: %+v", l.seed, f)
	}
}
