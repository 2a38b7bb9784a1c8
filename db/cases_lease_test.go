package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// L2: the last attempt's lease is extended while its handler works: another claim does not
// discard it beside the live handler, neither after the extension nor while it is just
// being written; and a handler that was too late hears of it.
func TestLeaseOfLastAttempt(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id := r.insert(row{Attempts: 7})
	e := r.claimOne("a")
	runOut := func() { r.exec(`update public.outbox_events set available_at = clock_timestamp() where id = $1`, id) }
	extend := `select x from public.outbox_extend_leases(array[$1]::uuid[], array[$2], 300) x`

	runOut()
	worker := r.session()
	worker.begin("read committed")
	if held := column[uuid.UUID](worker.rail, extend, id, e.token()); len(held) != 1 {
		t.Fatal("not extended after it ran out, though nobody has taken it")
	}
	r.claim("a")
	worker.commit()
	r.claim("a")
	if got := r.event(id); got.Status != "processing" || got.token() != e.token() {
		t.Errorf("%s beside a live handler", got.Status)
	}

	runOut()
	r.claim("a")
	if got := r.event(id).Status; got != "discarded" {
		t.Fatalf("%s after the last lease ran out", got)
	}
	if held := column[uuid.UUID](r, extend, id, e.token()); len(held) != 0 || r.ack(e) {
		t.Error("the handler that was too late still holds it")
	}
}

// L5: the reply of an acknowledgement is lost and it is repeated: told from a lost one.
func TestAckRepeated(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{})
	e := r.claimOne("a")
	r.ack(e)
	answer := func(token string) string {
		return value[string](r, `select outcome from public.outbox_mark_processed_many(array[$1]::uuid[], array[$2])`, e.ID, token)
	}
	if again, other := answer(e.token()), answer(uuid.NewString()); again != "repeated" || other != "lost" {
		t.Errorf("repeated: %s; another's: %s", again, other)
	}
	if r.ack(e) {
		t.Error("the contract's acknowledgement is true once")
	}
}

// L7: only the database's clock decides: no function that a client calls takes a time.
func TestNoTimesCross(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	got := column[string](r, `select p.proname::text from pg_proc p, unnest(p.proargtypes) a
		where p.pronamespace = 'public'::regnamespace and p.proname like 'outbox%' and a in ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)`)
	// A part of the claim, which hands down the time it read itself, and a part of the filing, which has the row's.
	if diff := cmp.Diff([]string{"outbox_discard_exhausted", "outbox_lane_by_time"}, got); diff != "" {
		t.Errorf("functions that take a time (-want +got):\n%s", diff)
	}
}

// L8: the same worker name twice: the first one's token does not end what the second has.
func TestTokenOfFirstClaim(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id, worker := r.insert(row{}), uuid.New()
	claim := func() event {
		return r.events(`select * from public.outbox_claim_events(array['a'], '{}', 1, 300, 8, $1)`, worker)[0]
	}
	first := claim()
	r.exec(`update public.outbox_events set available_at = clock_timestamp() where id = $1`, id)
	second := claim()
	before := r.event(id)
	if r.ack(first) {
		t.Error("acknowledged under the first token")
	}
	for _, outcome := range []string{"retry", "discard", "snooze"} {
		if got := value[string](r, `select public.outbox_mark_failed($1, $2, 'e', $3)`, id, first.token(), outcome); got != "missed" {
			t.Errorf("%s: %s", outcome, got)
		}
	}
	if n := value[int](r, `select public.outbox_release_unprocessed(array[$1]::uuid[], array[$2])`, id, first.token()); n != 0 {
		t.Error("released under the first token")
	}
	if diff := cmp.Diff(before, r.event(id)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	if !r.ack(second) {
		t.Error("the second does not hold it any more")
	}
}

// L3, the part in SQL: what was claimed and not started is given back with its attempt, also
// where the worker never heard of its claim. (How a dead worker is noticed is shown where
// take-over is.)
func TestClaimNeverHeardOf(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for i := range 25 {
		r.insert(row{Agg: i})
	}
	worker, stranger := uuid.New(), uuid.New()
	claim := func(who uuid.UUID, n int) []event {
		return r.events(`select * from public.outbox_claim_events(array['a'], '{}', $2, 300, 8, $1)`, who, n)
	}
	for round := range 8 {
		known := claim(worker, 5)
		others := claim(stranger, 3)
		claim(worker, 25) // the reply of which got lost
		if n := value[int](r, `select public.outbox_recover_claims($1, array['a'], $2)`, worker, ids(known)); n != 17 {
			t.Errorf("round %d: recovered %d, want 17", round, n)
		}
		if spent := value[int](r, `select sum(attempts) from public.outbox_events`); spent != 8 {
			t.Errorf("round %d: %d attempts are spent for 8 events in hand", round, spent)
		}
		for _, e := range append(known, others...) {
			r.exec(`select public.outbox_release_unprocessed(array[$1]::uuid[], array[$2])`, e.ID, e.token())
		}
		r.sound()
	}
	if age := value[time.Duration](r, `select max(available_at) - clock_timestamp() from public.outbox_events`); age > 0 {
		t.Errorf("the last comes back in %v only", age)
	}
}

// A lease ran out, an older event of the aggregate was reopened and claimed: the late worker cannot take its lease up again
// beside it, whether the claim has filed its event behind the older one or not come across it.
func TestLateExtensionBehindAnOlderEvent(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]string{
		"filed behind it": `select public.outbox_claim_batch(array['a'])`,
		"not come across": `update public.outbox_events set status = 'processing', available_at = clock_timestamp() + interval '5 minutes',
			metadata = '{"claimToken": "t"}' where status = 'pending'`,
	} {
		r := newRail(t)
		older := r.insert(row{Age: 2 * time.Hour, Status: "discarded"})
		r.insert(row{Age: time.Hour})
		late := r.claimOne("a")
		extended := func() int {
			return value[int](r, `select count(*) from public.outbox_extend_leases($1, $2)`, ids([]event{late}), tokens([]event{late}))
		}
		r.exec(`update public.outbox_events set available_at = clock_timestamp() where id = $1`, late.ID)
		if n := extended(); n != 1 {
			t.Errorf("%s: a late worker with nobody beside it lost its lease", name)
		}
		r.exec(`update public.outbox_events set available_at = clock_timestamp() where id = $1`, late.ID)
		r.exec(`select public.outbox_redrive($1, 'me', 'test')`, []uuid.UUID{older})
		r.exec(claim)
		if n := extended(); n != 0 || r.event(older).Status != "processing" {
			t.Errorf("%s: two events of one aggregate are in flight", name)
		}
		if now := r.event(older); !r.ack(late) || !r.ack(now) {
			t.Errorf("%s: what was done is not acknowledged", name)
		}
		r.sound()
	}
}
