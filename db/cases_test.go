package db_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func (r *rail) redriveAll(ids ...uuid.UUID) []string {
	r.Helper()
	return column[string](r, `select outcome from public.outbox_redrive($1, 'ada', 'the address was mended')`, ids)
}

func (r *rail) discard(e event) {
	r.Helper()
	if got := value[string](r, `select public.outbox_mark_failed($1, $2, 'no such street', 'discard')`, e.ID, e.token()); got != "discarded" {
		r.Fatal(got)
	}
}

// O6: v1 discarded, v2 in flight, an operator redrives v1: refused with the reason; once
// v2 has ended it is reopened, in its old place, with who and why.
func TestRedrive(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	v1 := r.insert(row{Agg: 1, Age: 9e9, Metadata: `{"mine": 1}`})
	v2 := r.insert(row{Agg: 1, Age: 8e9})
	v3 := r.insert(row{Agg: 1, Age: 7e9})
	r.discard(r.claimOne("a"))
	inFlight := r.claimOne("a")
	before := r.event(v1)
	for id, want := range map[uuid.UUID]string{v1: "in_flight", v2: "not_discarded", v3: "not_discarded", uuid.New(): "not_found"} {
		if got := r.redriveAll(id); got[0] != want {
			t.Errorf("%s: %s, want %s", id, got[0], want)
		}
	}
	if diff := cmp.Diff(before, r.event(v1)); diff != "" {
		t.Errorf("refused, yet changed:\n%s", diff)
	}
	r.discard(inFlight)
	if got := r.redriveAll(v2, v1, v2); !cmp.Equal(got, []string{"redriven", "redriven", "redriven"}) {
		t.Errorf("got %v", got)
	}
	again := r.event(v1)
	if again.Status != "pending" || again.Attempts != 0 || !again.CreatedAt.Equal(before.CreatedAt) {
		t.Errorf("redriven: %+v", again)
	}
	r.recent(again, "redrivenAt")
	delete(again.Metadata, "redrivenAt")
	delete(again.Metadata, "lastClaimedAt")
	delete(again.Metadata, "claimToken")
	if diff := cmp.Diff(map[string]any{"mine": 1.0, "redrivenBy": "ada", "redriveReason": "the address was mended", "redriveCount": 1.0}, again.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	r.sound()
	if diff := cmp.Diff([]uuid.UUID{v1, v2, v3}, r.drain("a")); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// O6: a redrive of many reopens them in order, whatever order they are named in, at most
// 1000 a call.
func TestRedriveMany(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into public.outbox_events (created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status)
		select clock_timestamp() - (1000 - i) * interval '1 second', 'order', lpad(to_hex(i % 7), 32, '0')::uuid, case i % 2 when 0 then 'a' else 'b' end, i::text,
			jsonb_build_object('n', i), case when i < 245 then 'discarded' else 'pending' end from generate_series(0, 249) i`)
	discarded := column[uuid.UUID](r, `select id from public.outbox_events where status = 'discarded' order by random()`)
	for _, outcome := range r.redriveAll(discarded...) {
		if outcome != "redriven" {
			t.Fatal(outcome)
		}
	}
	r.inWrittenOrder(7)
	r.sound()
}

// O6: each redrive is counted.
func TestRedriveCount(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id := r.insert(row{Metadata: `{"redriveCount": "many", "snoozeCount": 4}`})
	for want := range 3 {
		r.discard(r.claimOne("a"))
		r.redriveAll(id)
		if got := r.event(id).Metadata; got["redriveCount"] != float64(want+1) || got["snoozeCount"] != nil || got["discardReason"] != nil {
			t.Errorf("after %d redrives: %v", want+1, got)
		}
	}
}

// O7: v1 discarded, v2 waiting: by default v2 goes on; where the type halts, its aggregate
// stands still, is listed with the reason, and goes on by redriving v1 or past it.
func TestHalt(t *testing.T) {
	t.Parallel()
	spent := func(r *rail) {
		r.exec(`update public.outbox_events set attempts = 8 where (payload ->> 'n')::integer = 1`)
		r.claim("a", "b")
	}
	failed := func(r *rail) {
		for _, e := range r.claim("a") {
			r.discard(e)
		}
	}
	for name, c := range map[string]struct {
		policy, reason string
		discard        func(*rail)
		goOn           func(*rail, uuid.UUID)
		want           []int // events of the aggregate that come in the end
	}{
		"continue, attempts spent": {"continue", "", spent, nil, []int{2, 3}},
		"continue, given up":       {"continue", "", failed, nil, []int{2, 3}},
		"halt, attempts spent":     {"halt", "max_attempts", spent, func(r *rail, v1 uuid.UUID) { r.redriveAll(v1) }, []int{1, 2, 3}},
		"halt, given up":           {"halt", "permanent_error", failed, func(r *rail, v1 uuid.UUID) { r.redriveAll(v1) }, []int{1, 2, 3}},
		"halt, resumed past it": {"halt", "permanent_error", failed, func(r *rail, _ uuid.UUID) {
			if !value[bool](r, `select public.outbox_resume_aggregate('order', $1)`, agg(1)) || value[bool](r, `select public.outbox_resume_aggregate('order', $1)`, agg(1)) {
				r.Error("resumed other than once")
			}
		}, []int{2, 3}},
		"halt, unlisted by hand": {"halt", "permanent_error", failed, func(r *rail, _ uuid.UUID) {
			r.exec(`delete from public.outbox_halted_aggregates`)
			r.exec(`select public.outbox_heal()`)
		}, []int{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			r.exec(`insert into public.outbox_event_policies (event_type, on_discard) values ('a', $1)`, c.policy)
			r.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
				select 'order', $1, case i when 3 then 'b' else 'a' end, i::text, jsonb_build_object('n', i) from generate_series(1, 3) i`, agg(1))
			v1 := r.written(agg(1))[0]
			c.discard(r)
			r.sound()
			if c.policy == "halt" {
				r.stands(v1, c.reason)
				c.goOn(r, v1)
			}
			r.exec(`select public.outbox_release_unprocessed(array_agg(id), array_agg(metadata ->> 'claimToken')) from public.outbox_events where status = 'processing' having count(*) > 0`)
			var got []int
			for _, id := range r.drain("a", "b") {
				got = append(got, value[int](r, `select (payload ->> 'n')::integer from public.outbox_events where id = $1`, id))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("came (-want +got):\n%s", diff)
			}
		})
	}
}

// stands checks that aggregate 1 is halted: listed, explained, not handed out, not pruned;
// and that others are not.
func (r *rail) stands(v1 uuid.UUID, reason string) {
	r.Helper()
	listed := column[string](r, `select concat_ws(' ', aggregate_type, aggregate_id, event_id, event_type, reason) from public.outbox_halted_aggregates`)
	if diff := cmp.Diff([]string{strings.Join([]string{"order", agg(1).String(), v1.String(), "a", reason}, " ")}, listed); diff != "" {
		r.Errorf("listed (-want +got):\n%s", diff)
	}
	other := r.insert(row{Agg: 2, Type: "c"})
	for range 2 {
		for _, e := range r.claim("a", "b", "c") {
			if e.ID != other {
				r.Errorf("%s was handed out of a halted aggregate", e.ID)
			}
		}
		r.sound()
	}
	if got := value[string](r, `select reason from public.outbox_explain_aggregate('order', $1)`, agg(1)); got != "halted" {
		r.Errorf("explained as %s", got)
	}
	r.exec(`select public.outbox_prune(0, 1000, 0)`)
	r.event(v1)
}

// O8: pools that pass each other's types as known: b overtakes an older a. That is the
// contract.
func TestPoolsOvertake(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	a := r.insert(row{Agg: 1, Age: 2e9, Type: "a"})
	b := r.insert(row{Agg: 1, Age: 1e9, Type: "b"})
	for kind, want := range map[string]uuid.UUID{"b": b, "a": a} {
		got := r.events(`select * from public.outbox_claim_batch(array[$1], array['a', 'b'])`, kind)
		if diff := cmp.Diff([]uuid.UUID{want}, ids(got)); diff != "" {
			t.Errorf("pool %s (-want +got):\n%s", kind, diff)
		}
	}
}

// P2: an event type that nobody handles: the statistics show it, its age and what it
// holds up; its aggregate explains itself.
func TestUnhandledType(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	old := r.insert(row{Type: "nobody's", Agg: 1, Age: 30 * 24 * time.Hour})
	r.insert(row{Agg: 1, Age: time.Hour})
	r.claim("a")
	got := column[string](r, `select concat_ws(' ', event_type, ready, later, in_flight, parked, discarded, round(oldest_age_seconds / 86400), dormant) from public.outbox_stats()`)
	if diff := cmp.Diff([]string{"a 0 0 0 1 0 f", "nobody's 1 0 0 0 0 30 f"}, got); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	why := value[string](r, `select concat_ws(' ', event_id, event_type, reason, waiting_behind) from public.outbox_explain_aggregate('order', $1)`, agg(1))
	if want := fmt.Sprint(old, " nobody's claimable 1"); why != want {
		t.Errorf("explained %q, want %q", why, want)
	}
}

// P3: the policy of a type ends snoozing, with that as the reason.
func TestSnoozeLimit(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into public.outbox_event_policies (event_type, max_snoozes) values ('a', 50)`)
	id := r.insert(row{})
	for n := 1; ; n++ {
		e := r.claimOne("a")
		got := value[string](r, `select public.outbox_mark_failed($1, $2, 'closed', 'snooze')`, id, e.token())
		if got == "discarded" {
			r.discardedBecause(r.event(id), "max_snoozes")
			if n != 51 {
				t.Errorf("discarded at snooze %d", n)
			}
			return
		}
		r.exec(`update public.outbox_events set available_at = clock_timestamp()`)
	}
}

// P4: the limit of a type's policy holds for every caller, whatever limit it names.
func TestAttemptsPolicy(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into public.outbox_event_policies (event_type, max_attempts) values ('a', 8)`)
	id := r.insert(row{Attempts: 5})
	other := r.insert(row{Type: "b", Agg: 1, Attempts: 5})
	got := r.events(`select * from public.outbox_claim_batch(array['a', 'b'], p_max_attempts => 3)`)
	if diff := cmp.Diff([]uuid.UUID{id}, ids(got)); diff != "" {
		t.Fatalf("claimed (-want +got):\n%s", diff)
	}
	if r.event(other).Status != "discarded" {
		t.Error("without a policy the caller's limit counts")
	}
	if outcome := value[string](r, `select public.outbox_mark_failed($1, $2, 'e', p_max_attempts => 3)`, id, got[0].token()); outcome != "failed" {
		t.Errorf("%s after 6 of 8 attempts", outcome)
	}
	r.exec(`update public.outbox_events set available_at = clock_timestamp(), attempts = 8 where id = $1`, id)
	if got := r.events(`select * from public.outbox_claim_batch(array['a', 'b'], p_max_attempts => 20)`); len(got) != 0 || r.event(id).Status != "discarded" {
		t.Errorf("after 8 of 8 attempts %s, and claimed %d", r.event(id).Status, len(got))
	}
}

// P7: one call tells why an event does not move: by which event, its type, state, attempts
// and since when, and what waits behind.
func TestExplain(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	explain := func(id uuid.UUID) string {
		return value[string](r, `select concat_ws(' ', status, reason, attempts, round(due_in_seconds / 10)::integer * 10, claimed_at is not null, blocker_id is not null, blocker_type, blocker_status,
			blocker_attempts, round(blocker_due_in_seconds / 10)::integer * 10, blocker_claimed_at is not null, waiting_behind) from public.outbox_explain($1)`, id)
	}
	head := r.insert(row{Agg: 1, Age: 9e9})
	second := r.insert(row{Agg: 1, Age: 8e9})
	third := r.insert(row{Agg: 1, Age: 7e9, Type: "b"})
	later := r.insert(row{Agg: 2, Due: time.Hour})
	done := r.insert(row{Agg: 3, Status: "processed"})
	given := r.insert(row{Agg: 4, Status: "discarded", Attempts: 8})
	late := r.insert(row{Agg: 5, Status: "processing", Due: -time.Minute, Attempts: 2})
	dormant := r.insert(row{Agg: 6, Type: "sleepy", Age: 9e9})
	beside := r.insert(row{Agg: 6, Age: 8e9})
	r.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('sleepy', 'team', 'not yet')`)
	want := map[uuid.UUID]string{
		head: "pending claimable 0 0 f f f 2", second: "pending blocked 0 0 f t a pending 0 0 f 1", third: "pending blocked 0 0 f t a pending 0 0 f 0",
		later: "pending not_due 0 3600 f f f 0", done: "processed processed 0 0 f f f 0", given: "discarded discarded 8 0 f f f 0",
		late: "processing lease_expired 2 -60 f f f 0", dormant: "pending claimable 0 0 f f f 1", beside: "pending claimable 0 0 f f f 0",
	}
	check := func() {
		t.Helper()
		for id, w := range want {
			if got := explain(id); got != w {
				t.Errorf("%s: %q, want %q", r.event(id).EventType, got, w)
			}
		}
	}
	check()
	if got := r.claim("b"); len(got) != 0 {
		t.Fatal("claimed behind others")
	}
	r.events(`select * from public.outbox_claim_batch(array['a'], p_batch_size => 1)`)
	want[head] = "processing in_flight 1 300 t f f 2"
	want[second], want[third] = "pending blocked 0 0 f t a processing 1 300 t 1", "pending blocked 0 0 f t a processing 1 300 t 0"
	check()
	if n := len(column[uuid.UUID](r, `select event_id from public.outbox_explain(gen_random_uuid())`)); n != 0 {
		t.Errorf("%d answers for no event", n)
	}
}
