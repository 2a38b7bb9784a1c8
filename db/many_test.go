package db_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// claimMany is a claim whose rows stay in the ready lane.
const claimMany = `select * from public.outbox_claim_events(array['a'], '{}', 500, 300, 8, $1::uuid, p_many => 1)`

func (r *rail) fill(n int) {
	r.Helper()
	// Of a size at which a page that is half full has room for what a claim adds to its rows.
	r.exec(`insert into `+plainColumns+` select 'order', gen_random_uuid(), 'a', i::text, jsonb_build_object('note', repeat('x', 600)) from generate_series(1, $1::integer) i`, n)
}

// A claim of many changes nothing that an index knows of; one of few files its rows. Which of the two is a matter of their
// number.
func TestClaimOfManyIsHeapOnly(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.fill(400)
	for _, c := range []struct{ limit, hot int }{{127, 0}, {128, 128}} {
		s := r.session()
		s.exec(`begin`)
		s.exec(fmt.Sprintf(`select public.outbox_claim_events(array['a'], '{}', %d, 300, 8)`, c.limit))
		if hot := value[int](s.rail, `select pg_stat_get_xact_tuples_hot_updated('public.outbox_events'::regclass)::integer`); hot != c.hot {
			t.Errorf("a claim of %d: %d heap-only updates, want %d", c.limit, hot, c.hot)
		}
		s.exec(`rollback`)
		r.exec(`vacuum public.outbox_events`)
	}
}

// What a claim of many left in the ready lane is in flight like any other: not handed out before its lease ends, holding up
// its aggregate, handed out again afterwards.
func TestClaimOfManyIsALease(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` values ('order', lpad('1', 32, '0')::uuid, 'a', 'first', '{}')`)
	r.exec(`insert into ` + plainColumns + ` values ('order', lpad('1', 32, '0')::uuid, 'a', 'second', '{}')`)
	if got := r.events(claimMany, nil); len(got) != 1 || *got[0].Lane != "ready" {
		t.Fatalf("claimed %+v", got)
	}
	if got := r.events(claimMany, nil); len(got) != 0 {
		t.Fatalf("claimed in flight: %+v", got)
	}
	r.sound()
	r.exec(`update public.outbox_events set available_at = clock_timestamp() where status = 'processing'`)
	got := r.events(claimMany, nil)
	if len(got) != 1 || got[0].IdempotencyKey != "first" || got[0].Attempts != 2 || *got[0].Lane != "held" {
		t.Fatalf("after the lease: %+v", got)
	}
	if !r.ack(got[0]) {
		t.Error("not acknowledged")
	}
	r.sound()
	if got := r.events(claimMany, nil); len(got) != 1 || got[0].IdempotencyKey != "second" {
		t.Errorf("then: %+v", got)
	}
}

// A lease that ran out on the last attempt, where no index tells the attempts: the claim discards the event when it comes
// across it, and hands out the next of its aggregate in the same call.
func TestClaimOfManyUsedUp(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` select 'order', lpad('1', 32, '0')::uuid, 'a', i::text, '{}' from generate_series(1, 2) i`)
	r.exec(`update public.outbox_events set attempts = 7 where idempotency_key = '1'`)
	r.events(claimMany, nil)
	r.exec(`update public.outbox_events set available_at = clock_timestamp() where status = 'processing'`)
	if got := r.events(claimMany, nil); len(got) != 1 || got[0].IdempotencyKey != "2" {
		t.Errorf("claimed %+v", got)
	}
	if diff := cmp.Diff([]string{"discarded 8 crashes 0", "processing 1 crashes 0 ready"}, r.states()); diff != "" {
		t.Error(diff)
	}
	r.sound()
}

// What a dead worker claimed many at a time is found at the front of the ready lane, whatever waits behind it; so is what a
// live one does not know of.
func TestTakeOverOfMany(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]string{
		"taken over": takeOver,
		"recovered":  `select public.outbox_recover_claims('%s', array['a', 'b'], '{}')`,
	} {
		r := newRail(t)
		r.fill(300)
		w := r.worker("a", "b")
		if n := w.claims(200, false); n != 200 {
			t.Fatalf("claimed %d", n)
		}
		if n := w.claims(20, false); n != 20 {
			t.Fatalf("claimed %d", n)
		}
		other := r.events(`select * from public.outbox_claim_events(array['a'], '{}', 40, 300, 8, $1, p_many => 1)`, uuid.New())
		if name == "taken over" {
			w.dies(r)
		} else {
			over = fmt.Sprintf(over, w.holder)
		}
		if n := value[int](r, over); n != 220 || len(other) != 40 {
			t.Errorf("%s: %d, want 220", name, n)
		}
		if n := value[int](r, `select count(*) from public.outbox_events where status = 'processing'`); n != 40 {
			t.Errorf("%s: %d are left in flight, want the 40 of the other", name, n)
		}
		r.sound()
	}
}

// A worker that was taken for dead while it was cut off goes on claiming before it appears again: nobody has noted how far.
func TestTakeOverOfClaimsBeforeAppearing(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.fill(400)
	w := r.worker("a")
	if n := w.claims(200, false); n != 200 {
		t.Fatalf("claimed %d", n)
	}
	r.exec(`delete from public.outbox_workers`)
	if n := w.claims(200, false); n != 200 {
		t.Fatalf("claimed %d", n)
	}
	w.exec(`select public.outbox_appear($1::uuid, array['a'], true)`, w.holder)
	w.dies(r)
	if n := value[int](r, takeOver); n != 400 {
		t.Errorf("took over %d, want all 400", n)
	}
}

// An event that must run alone stays one, whatever happens to it besides a handler's return.
func TestSuspectsStaySuspects(t *testing.T) {
	t.Parallel()
	release := `select public.outbox_release_unprocessed(array[id], array[metadata ->> 'claimToken'], %d)
		from public.outbox_claim_events(array['a'], '{}', 1, 300, 8, null, true)`
	for name, does := range map[string][]string{
		"nothing":             {},
		"released":            {fmt.Sprintf(release, 0)},
		"released with delay": {fmt.Sprintf(release, 60), `update public.outbox_events set available_at = clock_timestamp()`},
		"lease ran out": {`select public.outbox_claim_events(array['a'], '{}', 1, 300, 8, null, true)`,
			`update public.outbox_events set available_at = clock_timestamp()`},
		"parked and freed": {`update public.outbox_events set lane = 'queued'`, `select public.outbox_unblock(array['order'], array[lpad('1', 32, '0')::uuid], array['a'])`},
		"healed":           {`update public.outbox_events set lane = null`, `select public.outbox_heal()`},
		"moved by hand":    {`update public.outbox_events set created_at = created_at - interval '1 day'`},
		"discarded, redriven": {`update public.outbox_events set status = 'discarded'`,
			`select public.outbox_redrive(array[id], 'me', 'test') from public.outbox_events`},
	} {
		r := newRail(t)
		r.exec(`insert into ` + plainColumns + ` values ('order', lpad('1', 32, '0')::uuid, 'a', 'k', '{}')`)
		r.exec(`update public.outbox_events set crashes = 3`)
		for _, sql := range does {
			r.exec(sql)
		}
		r.sound()
		w := r.worker("a")
		if !value[bool](r, `select public.outbox_any_suspect(array['a'])`) || w.claims(10, false) != 0 || w.claims(1, true) != 1 {
			t.Errorf("%s: it ran in company", name)
		}
	}
}

// However many events have to run alone, what waited for its time beside them is handed out.
func TestSuspectsStarveNobody(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"timed", "held"} {
		r := newRail(t)
		const row = `insert into public.outbox_events (available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, lane, crashes)
			select clock_timestamp() - interval '1 s' * i, 'order', gen_random_uuid(), 'a', i::text, '{}', 'processing', $1, $2::integer from generate_series($3::integer, $4) i`
		r.exec(row, lane, 3, 2, 501)
		r.exec(row, lane, 0, 1, 1)
		w := r.worker("a")
		if !value[bool](r, `select public.outbox_any_ready(array['a'])`) || w.claims(10, false) != 1 {
			t.Errorf("%s: nothing is handed out", lane)
		}
		if value[bool](r, `select public.outbox_any_ready(array['a'])`) {
			t.Errorf("%s: those that run alone pass for free to go", lane)
		}
	}
}

// What is in flight at the front does not hide what waits behind it.
func TestCountsBehindLargeClaims(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.fill(300)
	r.exec(`select public.outbox_claim_events(array['a'], '{}', 150, 300, 8)`)
	for limit, want := range map[int]string{100: "100 due, 100 in flight", 1000: "150 due, 150 in flight"} {
		if got := value[string](r, `select ready || ' due, ' || in_flight || ' in flight' from public.outbox_stats($1::integer) where oldest_age_seconds >= 0`, limit); got != want {
			t.Errorf("counted to %d: %s, want %s", limit, got, want)
		}
	}
}

// What is given back from a large claim stays where it is: each row is written once.
func TestReleaseOfManyWritesOnce(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.fill(200)
	held := r.events(`select * from public.outbox_claim_events(array['a'], '{}', 200, 300, 8)`)
	s := r.session()
	s.exec(`begin`)
	s.exec(`select public.outbox_release_unprocessed($1, $2)`, ids(held), tokens(held))
	if n := value[int](s.rail, `select pg_stat_get_xact_tuples_updated('public.outbox_events'::regclass)::integer`); n != 200 {
		t.Errorf("%d rows written to give 200 back", n)
	}
	s.exec(`commit`)
	r.sound()
}
