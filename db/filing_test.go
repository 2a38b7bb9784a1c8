package db_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// lanes tells where the events are filed, oldest first; a star marks those waited for.
func (r *rail) lanes() string {
	r.Helper()
	return strings.Join(column[string](r, `select coalesce(lane, '-') || case when waited and lane is not null then '*' else '' end
		from public.outbox_events order by created_at, id`), " ")
}

// Rows that one transaction wrote by plain INSERT are filed behind one another when they
// are written, but only where that is safe: what a savepoint may take back, or what
// others can end meanwhile, is left to the claims.
func TestFilingWithinTransaction(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	const one = `insert into ` + plainColumns + ` values ('order', lpad('1', 32, '0')::uuid, 'a', gen_random_uuid(), '{}')`
	for name, c := range map[string]struct{ script, lanes string }{
		"alone":                      {one, "ready"},
		"two":                        {one + ";" + one, "ready* queued"},
		"three":                      {one + ";" + one + ";" + one, "ready* queued queued"},
		"second in a savepoint":      {one + "; savepoint s;" + one, "ready* queued"},
		"savepoint kept":             {one + "; savepoint s;" + one + "; release savepoint s;" + one, "ready* queued ready"},
		"savepoint rolled back":      {one + "; savepoint s;" + one + "; rollback to s", "ready"},
		"savepoint, then another":    {one + "; savepoint s;" + one + "; rollback to s;" + one, "ready* queued"},
		"first in a savepoint":       {"savepoint s;" + one + "; release savepoint s;" + one, "ready ready"},
		"first rolled back":          {"savepoint s;" + one + "; rollback to s;" + one, "ready"},
		"nested":                     {one + "; savepoint s;" + one + "; savepoint u;" + one + "; rollback to u; release savepoint s;" + one, "ready* queued ready"},
		"first deleted again":        {one + ";" + one + "; delete from public.outbox_events where lane = 'ready'", "ready*"},
		"deleted, rolled back":       {one + ";" + one + "; savepoint s; delete from public.outbox_events where lane = 'ready'; rollback to s;" + one, "ready* queued queued"},
		"first discarded by hand":    {one + ";" + one + "; update public.outbox_events set status = 'discarded' where lane = 'ready'", "gone* ready*"},
		"first handled at once":      {one + ";" + one + "; select public.outbox_mark_processed(id, metadata ->> 'claimToken') from public.outbox_claim_batch(array['a']);" + one, "- ready* queued"},
		"first claimed":              {one + ";" + one + "; select public.outbox_claim_batch(array['a']);" + one, "held* queued queued"},
		"claimed, rolled back":       {one + "; savepoint s; select public.outbox_claim_batch(array['a']);" + one + "; rollback to s;" + one, "ready* queued"},
		"first released":             {one + ";" + one + "; select public.outbox_release_unprocessed(array[id], array[metadata ->> 'claimToken']) from public.outbox_claim_batch(array['a']);" + one, "ready* queued queued"},
		"enqueued, then inserted":    {"select public.outbox_enqueue(array['a', 'a'], array['k', 'l'], array['order', 'order'], array_fill(lpad('1', 32, '0')::uuid, array[2]), array['{}', '{}']);" + one, "ready* queued queued"},
		"inserted, then enqueued":    {one + "; select public.outbox_enqueue(array['a', 'a'], array['k', 'l'], array['order', 'order'], array_fill(lpad('1', 32, '0')::uuid, array[2]), array['{}', '{}'])", "ready ready* queued"},
		"in one INSERT":              {"insert into " + plainColumns + " select 'order', lpad('1', 32, '0')::uuid, 'a', i::text, '{}' from generate_series(1, 3) i", "ready* queued queued"},
		"in one, some not inserted":  {"insert into " + plainColumns + " select 'order', lpad('1', 32, '0')::uuid, 'a', (i / 2)::text, '{}' from generate_series(1, 5) i on conflict do nothing", "ready* queued queued"},
		"two statements in one":      {"with x as (" + one + ") " + one, "ready* queued"},
		"a row that stands first":    {one + "; insert into public.outbox_events (created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload) values ('2001-01-01', 'order', lpad('1', 32, '0')::uuid, 'a', 'k', '{}')", "ready ready"},
		"a row for later":            {one + "; insert into public.outbox_events (available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload) values ('2101-01-01', 'order', lpad('1', 32, '0')::uuid, 'a', 'k', '{}');" + one, "ready timed* queued"},
		"written at rest":            {"insert into public.outbox_events (status, aggregate_type, aggregate_id, event_type, idempotency_key, payload) values ('processed', 'order', lpad('1', 32, '0')::uuid, 'a', 'k', '{}');" + one, "- ready"},
		"written as being processed": {"insert into public.outbox_events (status, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload) values ('processing', '2101-01-01', 'order', lpad('1', 32, '0')::uuid, 'a', 'k', '{}');" + one, "held* queued"},
	} {
		r.exec(`delete from public.outbox_events`)
		s := r.session()
		for _, statement := range strings.Split("begin;"+c.script+";commit", ";") {
			s.exec(statement)
		}
		if got := r.lanes(); got != c.lanes {
			t.Errorf("%s: filed %q, want %q", name, got, c.lanes)
		}
		r.sound()
		r.drain("a")
	}
}

// Whatever a transaction does with its rows and savepoints, the marks agree with the rows
// afterwards and at each of its steps, and the events come out in order.
func TestFilingRandomTransactions(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := r.session()
	for round := range 40 {
		var script []string
		s.begin([]string{"read committed", "repeatable read"}[random.IntN(2)])
		depth := 0
		for range 4 + random.IntN(16) {
			statement := randomStep(random, &depth)
			script = append(script, statement)
			s.exec(statement)
			if found := s.findings(); len(found) > 0 {
				t.Fatalf("seed %d, round %d: %v after\n%s", seed, round, found, strings.Join(script, ";\n"))
			}
		}
		s.exec([]string{"commit", "commit", "rollback"}[random.IntN(3)])
		r.sound()
		if random.IntN(4) == 0 {
			r.drain("a", "b")
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d, after\n%s", seed, round, strings.Join(script, ";\n"))
		}
	}
}

// randomStep is one statement of a transaction; depth counts its savepoints.
func randomStep(random *rand.Rand, depth *int) string {
	kind, aggregate := string(rune('a'+random.IntN(2))), agg(random.IntN(2))
	some := fmt.Sprintf(`(select id from public.outbox_events where status in ('pending', 'failed', 'processing') order by md5(id::text || '%d') limit 1)`, random.IntN(1000))
	switch random.IntN(14) {
	case 0:
		*depth++
		return fmt.Sprintf(`savepoint s%d`, *depth)
	case 1:
		if *depth > 0 {
			*depth = 1 + random.IntN(*depth)
			return fmt.Sprintf(`rollback to s%d`, *depth)
		}
	case 2:
		return fmt.Sprintf(`select public.outbox_enqueue(array['%[1]s', '%[1]s', 'b'], array[gen_random_uuid()::text, gen_random_uuid()::text, gen_random_uuid()::text],
			array['order', 'order', 'order'], array_fill('%[2]s'::uuid, array[3]), array['{}', '{}', '{}'])`, kind, aggregate)
	case 3:
		return fmt.Sprintf(`select public.outbox_claim_batch(array['%s'])`, kind)
	case 4:
		return `select public.outbox_mark_processed(id, metadata ->> 'claimToken') from public.outbox_events where status = 'processing'`
	case 5:
		return `select public.outbox_release_unprocessed(array[id], array[metadata ->> 'claimToken']) from public.outbox_claim_batch(array['a', 'b'])`
	case 6:
		return `update public.outbox_events set status = 'discarded' where id = ` + some
	case 7:
		return `delete from public.outbox_events where id = ` + some
	case 8:
		return `update public.outbox_events set available_at = clock_timestamp() where id = ` + some
	case 9:
		return `select public.outbox_mark_failed(id, metadata ->> 'claimToken', 'e', 'discard') from public.outbox_events where status = 'processing'`
	}
	return fmt.Sprintf(`insert into `+plainColumns+` values ('order', '%s', '%s', gen_random_uuid(), '{}')`, aggregate, kind)
}

// What stands behind one another is not only filed by plain INSERT and enqueue: a claim
// files what it finds blocked. Ending the head lets one go at a time.
func TestFilingByClaims(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	var all []uuid.UUID
	for n := range 5 {
		all = append(all, r.insert(row{Agg: 1, Age: time.Duration(9-n) * time.Second}))
	}
	if got := r.lanes(); got != "ready ready ready ready ready" {
		t.Errorf("written one by one: %s", got)
	}
	for n, want := range []string{"held* queued queued queued queued", "- held* queued queued queued", "- - held* queued queued", "- - - held* queued", "- - - - held*"} {
		e := r.claimOne("a")
		if got := r.lanes(); got != want || e.ID != all[n] {
			t.Errorf("claim %d: filed %q, want %q", n, got, want)
		}
		r.sound()
		r.ack(e)
	}
}
