package db_test

import (
	"strings"
	"testing"
)

// unseen makes changes that no trigger sees, as a restore or a replica may.
func (r *rail) unseen(sql string, args ...any) {
	r.Helper()
	s := r.session()
	s.exec(`set session_replication_role = replica`)
	s.exec(sql, args...)
}

// Each way in which a mark can be lost or go stale: the checker sees it, healing sets it
// right and counts it, and then everything comes in order.
func TestHeal(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for name, c := range map[string]struct {
		damage string
		found  string
		healed int
	}{
		"nothing":                {`select 1`, "", 0},
		"mark of a head lost":    {`update public.outbox_events set waited = false where id = '` + staged(parked, 2).String() + `'`, "barred_behind_nothing queued_behind_nothing queued_behind_nothing", 2},
		"head ended unseen":      {`update public.outbox_events set status = 'processed', lane = null where id = '` + staged(parked, 2).String() + `'`, "barred_behind_nothing queued_behind_nothing queued_behind_nothing", 2},
		"head deleted unseen":    {`delete from public.outbox_events where id = '` + staged(expired, 2).String() + `'`, "queued_behind_nothing queued_behind_nothing", 1},
		"ended in its lane":      {`update public.outbox_events set status = 'discarded' where id = '` + staged(idle, 1).String() + `'`, "filed_at_rest", 1},
		"queued, ended in lane":  {`update public.outbox_events set status = 'processed' where id = '` + staged(parked, 3).String() + `'`, "filed_at_rest", 1},
		"head ended in its lane": {`update public.outbox_events set status = 'processed' where id = '` + staged(expired, 2).String() + `'`, "filed_at_rest queued_behind_nothing queued_behind_nothing", 2},
		"written unseen": {`insert into ` + plainColumns + ` select 'order', '` + staged(idle, 0).String() + `', 'a', i::text, '{}' from generate_series(1, 3) i`,
			"unfiled unfiled unfiled", 3},
		"reopened unseen":      {`update public.outbox_events set status = 'pending' where id = '` + staged(history, 1).String() + `'`, "unfiled", 1},
		"taken out unseen":     {`update public.outbox_events set lane = 'gone' where id = '` + staged(idle, 1).String() + `'`, "unfiled", 1},
		"halt without a cause": {`update public.outbox_events set lane = 'barred', blocked_by = '' where id = '` + staged(idle, 2).String() + `'`, "halted_by_nothing", 1},
	} {
		r.exec(`delete from public.outbox_events; update public.outbox_rail set healed = 0, heal_after_queued = null, heal_after_barred = null`)
		r.setStage()
		r.unseen(c.damage)
		if got := strings.Join(column[string](r, `select problem from public.outbox_check() order by problem collate "C"`), " "); got != c.found {
			t.Errorf("%s: found %q, want %q", name, got, c.found)
		}
		if got := value[int](r, `select public.outbox_heal()`); got != c.healed {
			t.Errorf("%s: healed %d, want %d", name, got, c.healed)
		}
		if got := value[int](r, `select healed from public.outbox_rail`); got != c.healed {
			t.Errorf("%s: counted %d, want %d", name, got, c.healed)
		}
		r.sound()
		if _, err := r.drained("a", "b"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Healing goes round in portions: what stands far behind is reached in as many calls as
// there are portions, also when the row that a call ended at has left its place since.
func TestHealGoesRound(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	const aggregates = 12
	for n := range aggregates {
		r.exec(`insert into `+plainColumns+` select 'order', $1, k, format('%s %s %s', $1::uuid, k, i), '{}' from unnest(array['a', 'b']) k, generate_series(1, 3) i`, agg(n))
	}
	held := r.claim("a", "b")
	r.claim("a", "b")
	r.sound()
	last := `(select id from public.outbox_events where lane = 'queued' order by aggregate_id desc, aggregate_type desc, event_type desc, created_at limit 1)`
	// In this order: going round the queues takes rows out of both.
	for _, c := range []struct{ name, damage string }{
		{"barred", `update public.outbox_events set blocked_by = 'c' where id = (select id from public.outbox_events where lane = 'barred' order by event_type desc, blocked_by desc, created_at desc limit 1)`},
		{"queued", `update public.outbox_events set waited = false where (aggregate_id, event_type) = (select aggregate_id, event_type from public.outbox_events where id = ` + last + `) and lane <> 'queued'`},
	} {
		r.unseen(c.damage)
		if len(r.findings()) == 0 {
			t.Fatalf("%s: no damage done", c.name)
		}
		calls := 0
		for ; len(r.findings()) > 0 && calls <= 3*aggregates; calls++ {
			r.exec(`select public.outbox_heal(1)`)
			// The row at which it ended leaves the lane.
			r.exec(`update public.outbox_events set available_at = clock_timestamp() where id in (select heal_after_queued from public.outbox_rail union select heal_after_barred from public.outbox_rail)`)
		}
		if calls > 2*aggregates+2 {
			t.Errorf("%s: not healed after %d calls", c.name, calls)
		}
	}
	r.ackAll(held)
	if _, err := r.drained("a", "b"); err != nil {
		t.Error(err)
	}
}

// Two at once: the second leaves it to the first.
func TestHealOnce(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.unseen(`insert into ` + plainColumns + ` values ('order', gen_random_uuid(), 'a', 'k', '{}')`)
	a, b := r.session(), r.session()
	a.begin("read committed")
	if got := value[int](a.rail, `select public.outbox_heal()`); got != 1 {
		t.Errorf("the first healed %d", got)
	}
	if got := value[int](b.rail, `select public.outbox_heal()`); got != 0 {
		t.Errorf("the second healed %d", got)
	}
	a.commit()
	r.sound()
}

// Every slot of the locks that enqueueing takes has to be there.
func TestCheckLockSlots(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`delete from public.outbox_aggregate_locks where slot = 7`)
	if got := r.findings(); len(got) != 1 || !strings.HasPrefix(got[0], "lock_slots_missing") {
		t.Errorf("found %v", got)
	}
}
