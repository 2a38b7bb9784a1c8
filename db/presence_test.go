package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// A dying is a worker as the database sees it: a session that stands for it, and what it claimed.
type dying struct {
	*session
	holder uuid.UUID
}

func (r *rail) worker(types ...string) *dying {
	r.Helper()
	w := &dying{r.session(), uuid.New()}
	if !value[bool](w.rail, `select public.outbox_appear($1::uuid, $2::text[])`, w.holder, types) {
		r.Fatal("the worker could not appear")
	}
	return w
}

func (w *dying) claims(limit int, suspects bool) int {
	w.Helper()
	return len(w.events(`select * from public.outbox_claim_events(array['a', 'b'], '{}', $1::integer, 300, 8, $2::uuid, $3::boolean)`,
		limit, w.holder, suspects))
}

// dies ends the worker's session and lets the silence pass that others wait for.
func (w *dying) dies(watch *rail) {
	w.Helper()
	pid := w.conn.PgConn().PID()
	watch.exec(`select pg_terminate_backend($1::integer)`, pid)
	for deadline := time.Now().Add(patience); value[bool](watch, `select exists (select from pg_stat_activity where pid = $1::integer)`, pid); {
		if time.Now().After(deadline) {
			watch.Fatal("the session does not end")
		}
	}
	watch.exec(`update public.outbox_workers set seen_at = seen_at - interval '1 minute' where holder = $1::uuid`, w.holder)
}

const takeOver = `select public.outbox_take_over(10)`

// states tells what became of the events, oldest first.
func (r *rail) states() []string {
	r.Helper()
	return column[string](r, `select status || ' ' || attempts || ' crashes ' || crashes || coalesce(' ' || lane, '')
		from public.outbox_events order by created_at, id`)
}

// L9, and L3 and point 8 of the contract: a dead worker's events come back with their attempts.
func TestL9_TakeOver(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` select 'order', gen_random_uuid(), 'a', i::text, '{}' from generate_series(1, 3) i`)
	w := r.worker("a", "b")
	if n := w.claims(2, false); n != 2 {
		t.Fatalf("claimed %d, want 2", n)
	}
	if n := value[int](r, takeOver); n != 0 {
		t.Fatalf("took %d from a living worker", n)
	}
	w.dies(r)
	if n := value[int](r, takeOver); n != 2 {
		t.Fatalf("took over %d, want 2", n)
	}
	want := []string{"pending 0 crashes 1 ready", "pending 0 crashes 1 ready", "pending 0 crashes 0 ready"}
	if diff := cmp.Diff(want, r.states()); diff != "" {
		t.Error(diff)
	}
	if n := value[int](r, takeOver); n != 0 {
		t.Errorf("took over %d twice", n)
	}
}

// Neither silence alone nor a lost session alone is death.
func TestL9_NotDeadYet(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` values ('order', gen_random_uuid(), 'a', 'k', '{}')`)
	silent := r.worker("a")
	silent.claims(1, false)
	r.exec(`update public.outbox_workers set seen_at = seen_at - interval '1 hour'`)
	if n := value[int](r, takeOver); n != 0 {
		t.Fatalf("took %d from a silent worker whose session stands", n)
	}
	silent.dies(r)
	if !value[bool](r, `select public.outbox_heartbeat($1::uuid)`, silent.holder) {
		t.Fatal("a worker that lost its session is not known any more")
	}
	if n := value[int](r, takeOver); n != 0 {
		t.Fatalf("took %d from a worker that talks", n)
	}
}

// L8 and L9: a worker that was only cut off cannot acknowledge what was taken over.
func TestL9_CutOffWorkerCannotAcknowledge(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` values ('order', gen_random_uuid(), 'a', 'k', '{}')`)
	w := r.worker("a")
	w.claims(1, false)
	held := r.events(`select * from public.outbox_events`)[0]
	w.dies(r)
	r.exec(takeOver)
	ack := func() bool {
		return value[bool](r, `select public.outbox_mark_processed($1::uuid, $2::text)`, held.ID, held.token())
	}
	if ack() {
		t.Error("acknowledged after the take-over")
	}
	if n := len(r.events(`select * from public.outbox_claim_batch(array['a'])`)); n != 1 {
		t.Fatalf("claimed %d, want 1", n)
	}
	if ack() {
		t.Error("acknowledged while another worker has it")
	}
	if value[bool](r, `select public.outbox_heartbeat($1::uuid)`, w.holder) {
		t.Error("the cut-off worker is not told")
	}
}

// Three deaths in a row make a suspect, which only a claim for suspects gets; the fourth discards it.
func TestCrashesAreCountedApart(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` values ('order', gen_random_uuid(), 'a', 'k', '{}')`)
	for death, want := range []string{
		"pending 0 crashes 1 ready", "pending 0 crashes 2 ready", "pending 0 crashes 3 ready", "discarded 1 crashes 4",
	} {
		w := r.worker("a")
		solo := death == 3
		if n := w.claims(10, !solo); n != 0 {
			t.Fatalf("death %d: the wrong claim got %d", death, n)
		}
		if n := w.claims(10, solo); n != 1 {
			t.Fatalf("death %d: claimed %d, want 1", death, n)
		}
		w.dies(r)
		r.exec(takeOver)
		if diff := cmp.Diff([]string{want}, r.states()); diff != "" {
			t.Fatalf("death %d: %s", death, diff)
		}
	}
	if reason := value[string](r, `select metadata ->> 'discardReason' from public.outbox_events`); reason != "crashed" {
		t.Errorf("discarded as %q, want crashed", reason)
	}
}

// A handler that returned has not brought its process down; a contract claim takes suspects like any other row.
func TestSuspectsAreCleared(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` values ('order', gen_random_uuid(), 'a', 'k', '{}')`)
	r.exec(`update public.outbox_events set crashes = 3`)
	if !value[bool](r, `select public.outbox_any_suspect(array['a'])`) || value[bool](r, `select public.outbox_any_suspect(array['b'])`) {
		t.Error("suspects are not told by type")
	}
	claimed := r.events(`select * from public.outbox_claim_batch(array['a'])`)
	if len(claimed) != 1 {
		t.Fatalf("claimed %d, want 1", len(claimed))
	}
	r.exec(`select public.outbox_mark_failed($1::uuid, $2::text, 'no')`, claimed[0].ID, claimed[0].token())
	if diff := cmp.Diff([]string{"failed 1 crashes 0 timed"}, r.states()); diff != "" {
		t.Error(diff)
	}
}

// A suspect holds up its aggregate like any older event, and an unblocked aggregate goes on when it crashes.
func TestSuspectKeepsTheOrder(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` select 'order', lpad('1', 32, '0')::uuid, 'a', i::text, '{}' from generate_series(1, 2) i`)
	r.exec(`update public.outbox_events set crashes = 3 where lane = 'ready'`)
	w := r.worker("a")
	if n := w.claims(10, false); n != 0 {
		t.Fatalf("%d overtook a ready", n)
	}
	w.claims(1, true)
	w.dies(r)
	r.exec(takeOver)
	if diff := cmp.Diff([]string{"discarded 1 crashes 4", "pending 0 crashes 0 ready"}, r.states()); diff != "" {
		t.Error(diff)
	}
}
