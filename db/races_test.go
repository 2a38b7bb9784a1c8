package db_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// The races below take three or more steps between sessions; the pairs are in
// interleave_test.go.

const enqueueThree = `select duplicate from public.outbox_enqueue(array['a', 'a', 'a'], $1,
	array['order', 'order', 'order'], array[$2, $2, $2]::uuid[], array['{}', '{}', '{}'])`

// The first of three events is a duplicate, so the others have nobody of their own call
// to queue behind, while the row they could stand behind is just being let go.
func TestEnqueueBehindDuplicateBesideAck(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{Agg: 1, Age: 3e9, Key: "first", Status: "processed"})
	r.insert(row{Agg: 1, Age: 2e9})
	r.insert(row{Agg: 1, Age: 1e9})
	head := r.claimOne("a")

	acker, producer := r.session(), r.session()
	acker.begin("read committed")
	acker.ack(head)
	producer.begin("read committed")
	enqueued := producer.startExec(enqueueThree, []string{"first", "second", "third"}, agg(1))
	enqueued.settle(r)
	acker.commit()
	enqueued.succeeds()
	r.ack(r.claimOne("a"))
	producer.commit()
	r.sound()
	if left := r.drain("a"); len(left) != 2 {
		t.Errorf("drained %d, want the two new ones", len(left))
	}
}

// A claim discards the next in line for its spent attempts, while the one before it is
// acknowledged: the one after it has to move up.
func TestAckBesideDiscardOfNext(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	head := r.insert(row{Agg: 1, Age: 3e9})
	r.insert(row{Agg: 1, Age: 2e9, Attempts: 5})
	r.insert(row{Agg: 1, Age: 1e9})
	held := r.claimOne("a")
	if held.ID != head {
		t.Fatal("the oldest comes first")
	}
	claimer, acker := r.session(), r.session()
	claimer.begin("read committed")
	if got := claimer.events(`select * from public.outbox_claim_batch(array['a'], p_max_attempts => 5)`); len(got) != 0 {
		t.Fatalf("claimed %d beside the one in flight", len(got))
	}
	acked := acker.start(func() error { acker.ack(held); return nil })
	acked.settle(r)
	claimer.commit()
	acked.succeeds()
	r.sound()
	r.drain("a")
}

// Redrive waits for an acknowledgement, which lets the next one go; somebody claims
// that one before redrive has had its look.
func TestRedriveBesideAckAndClaim(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	old := r.insert(row{Agg: 1, Age: 9e9, Status: "discarded"})
	r.insert(row{Agg: 1, Age: 8e9})
	next := r.insert(row{Agg: 1, Age: 7e9})
	bystander := r.insert(row{Agg: 1, Age: 1e9, Type: "b"})
	head := r.claimOne("a")

	acker, other, operator, claimer := r.session(), r.session(), r.session(), r.session()
	acker.begin("read committed")
	acker.ack(head)
	other.begin("read committed")
	other.exec(`select from public.outbox_events where id = $1 for update`, bystander)
	var outcome string
	redriven := operator.start(func() error {
		outcome = value[string](operator.rail, `select outcome from public.outbox_redrive(array[$1]::uuid[], 'me', 'test')`, old)
		return nil
	})
	redriven.blocked(r)
	acker.commit()
	claimer.begin("read committed")
	if got := claimer.claimOne("a"); got.ID != next {
		t.Fatal("not the next one")
	}
	other.commit()
	redriven.blocked(r)
	claimer.commit()
	redriven.succeeds()
	if outcome != "in_flight" {
		t.Errorf("redrive answers %q beside a younger event in flight", outcome)
	}
	if wrong := r.outOfOrder(r.claim("a", "b")); len(wrong) > 0 {
		t.Errorf("claimed %v", wrong)
	}
	r.sound()
}

// The claim that discards an exhausted event of a halting type must not hand out the
// next of its aggregate.
func TestHaltWithinOneClaim(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into public.outbox_event_policies (event_type, on_discard) values ('a', 'halt')`)
	r.insert(row{Agg: 1, Age: 2e9, Attempts: 8})
	r.insert(row{Agg: 1, Age: 1e9})
	for range 3 {
		if got := r.claim("a"); len(got) != 0 {
			t.Fatalf("claimed %v of a halted aggregate", ids(got))
		}
	}
	r.sound()
}

// An acknowledgement whose transaction looked at the rail before somebody was filed
// behind the event must not leave that one behind.
func TestAckUnderAnOlderSnapshot(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			r.insert(row{Agg: 1, Age: 9e9})
			r.insert(row{Agg: 1, Age: 8e9})
			r.ack(r.claimOne("a")) // the second was filed behind the first: it carries the mark of that
			held := r.claimOne("a")
			acker := r.session()
			acker.begin(isolation)
			value[int](acker.rail, `select 1 from public.outbox_events limit 1`)
			r.insert(row{Agg: 1, Age: 7e9})
			r.insert(row{Agg: 1, Age: 6e9, Type: "b"})
			r.claim("a", "b")
			acked := acker.startExec(`select public.outbox_mark_processed($1, $2)`, held.ID, held.token())
			if err := acked.wait(); err != nil && sqlState(err) != "40001" {
				t.Fatal(err)
			} else if err != nil {
				acker.exec(`rollback`)
				acker.ack(held)
			} else {
				acker.commit()
			}
			r.sound()
			r.drain("a", "b")
		})
	}
}

// reopenings are the ways in which an event at rest comes back.
var reopenings = map[string]string{
	"redrive": `select public.outbox_redrive(array[$1]::uuid[], 'me', 'test')`,
	"by hand": `update public.outbox_events set status = 'pending' where id = $1`,
}

// A claim beside a transaction that is reopening an event must not hand out a younger one
// of its aggregate, whichever of the two sees the other first.
func TestClaimBesideReopening(t *testing.T) {
	t.Parallel()
	for name, reopen := range reopenings {
		r := newRail(t)
		old := r.insert(row{Agg: 1, Age: 9e9, Status: "discarded"})
		r.insert(row{Agg: 1, Age: 8e9})
		r.insert(row{Agg: 1, Age: 7e9, Type: "b"})
		operator := r.session()
		operator.begin("read committed")
		operator.exec(reopen, old)
		if got := r.claim("a", "b"); len(got) != 0 {
			t.Errorf("%s: claimed %v beside it", name, ids(got))
		}
		operator.commit()
		if order := r.drain("a", "b"); len(order) != 3 || order[0] != old {
			t.Errorf("%s: came %v", name, order)
		}
		r.sound()
	}
}

// A claim that looked at the rail before an event was reopened must not pass over it.
func TestClaimUnderAnOlderSnapshot(t *testing.T) {
	t.Parallel()
	for name, reopen := range reopenings {
		for _, isolation := range []string{"repeatable read", "serializable"} {
			t.Run(name+", "+isolation, func(t *testing.T) {
				t.Parallel()
				newRail(t).claimUnderAnOlderSnapshot(reopen, isolation)
			})
		}
	}
}

func (r *rail) claimUnderAnOlderSnapshot(reopen, isolation string) {
	r.Helper()
	old := r.insert(row{Agg: 1, Age: 9e9, Status: "discarded"})
	r.insert(row{Agg: 1, Age: 8e9})
	claimer := r.session()
	claimer.begin(isolation)
	value[int](claimer.rail, `select 1 from public.outbox_events limit 1`)
	r.exec(reopen, old)
	if err := claimer.startExec(`select public.outbox_claim_batch(array['a'])`).wait(); err != nil && sqlState(err) != "40001" {
		r.Fatal(err)
	}
	claimer.exec(`commit`)
	if wrong := r.outOfOrder(r.claim("a")); len(wrong) > 0 {
		r.Errorf("claimed %v", wrong)
	}
	r.sound()
}

func (r *rail) redrive(id uuid.UUID) string {
	r.Helper()
	return value[string](r, `select outcome from public.outbox_redrive(array[$1]::uuid[], 'me', 'test')`, id)
}

// Two tokens for one event in one call: only the right one's answer may be good.
func TestAnswersBelongToTokens(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{})
	held := r.claimOne("a")
	got := column[string](r, `select outcome from public.outbox_mark_processed_many(array[$1, $1]::uuid[], array['wrong', $2])`, held.ID, held.token())
	if got[0] != "lost" || got[1] != "processed" {
		t.Errorf("got %v, want lost and processed", got)
	}
	r.insert(row{})
	held = r.claimOne("a")
	got = column[string](r, `select outcome from public.outbox_mark_failed_many(array[$1, $1]::uuid[], array[$2, 'wrong'], array['', ''], array['retry', 'discard'])`, held.ID, held.token())
	if got[0] != "failed" || got[1] != "missed" {
		t.Errorf("got %v, want failed and missed", got)
	}
}

// An operator gives up what is queued behind an event in flight, and one in flight besides, while both are acknowledged: the
// acknowledgement waits for the queued one, and nobody waits for it.
func TestDiscardBesideAck(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	first, queued := r.insert(row{Agg: 1, Age: 4e9}), r.insert(row{Agg: 1, Age: 3e9})
	between, other := r.insert(row{Agg: 2, Type: "b", Age: 2e9}), r.insert(row{Agg: 3, Age: 1e9})
	held := r.claim("a")
	if len(held) != 2 || *r.event(queued).Lane != "queued" {
		t.Fatalf("claimed %+v", held)
	}
	holder, operator, acker := r.session(), r.session(), r.session()
	holder.begin("read committed")
	holder.exec(`select from public.outbox_events where id = $1 for update`, between)
	discarded := operator.startExec(`select public.outbox_discard($1, 'me', 'test')`, []uuid.UUID{queued, between, other})
	discarded.blocked(r)
	acked := acker.startExec(`select public.outbox_mark_processed_many($1, $2)`, ids(held), tokens(held))
	acked.blocked(r)
	holder.commit()
	discarded.succeeds()
	acked.succeeds()
	for id, want := range map[uuid.UUID]string{first: "processed", queued: "discarded", between: "discarded", other: "processed"} {
		if got := r.event(id).Status; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	r.sound()
}

// A redrive locks what an acknowledgement locks, in the same order, whatever ids producers have given.
func TestRedriveBesideAck(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	const row = `insert into public.outbox_events (id, created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status)
		values ($1, clock_timestamp() - $2 * interval '1 hour', 'order', $3, $4, $1::uuid::text, '{}', $5)`
	given, flying, between, barred := []uuid.UUID{staged('Z', 4), staged('Z', 5)}, staged('Z', 3), staged('Z', 2), staged('Z', 1)
	r.exec(row, given[0], 4, agg(1), "a", "discarded")
	r.exec(row, given[1], 4, agg(2), "a", "discarded")
	r.exec(row, flying, 3, agg(1), "a", "pending")
	r.exec(row, between, 2, agg(2), "c", "pending")
	r.exec(row, barred, 1, agg(1), "b", "pending")
	held := r.claimOne("a", "b")
	if *r.event(barred).Lane != "barred" {
		t.Fatal("nothing stands behind the one in flight")
	}
	holder, operator, acker := r.session(), r.session(), r.session()
	holder.begin("read committed")
	holder.exec(`select from public.outbox_events where id = $1 for update`, between)
	redriven := operator.startExec(`select public.outbox_redrive($1, 'me', 'test')`, given)
	redriven.blocked(r)
	acked := acker.startExec(`select public.outbox_mark_processed($1, $2)`, held.ID, held.token())
	acked.settle(r)
	holder.commit()
	redriven.succeeds()
	acked.succeeds()
	r.sound()
}

// Somebody keeps an event locked that many wait for: they cannot be filed behind it, and those behind them have their turn
// all the same.
func TestLockedBlockerStarvesNobody(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	const rows = `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload) select 'order', coalesce($1, gen_random_uuid()), 'a', gen_random_uuid(), '{}'`
	blocker := r.insert(row{Agg: 1, Age: time.Hour, Due: time.Hour})
	r.exec(rows+` from generate_series(1, 1200)`, agg(1))
	r.exec(`update public.outbox_events set lane = 'ready' where lane = 'queued'`) // as if each had its own transaction
	r.exec(rows, nil)
	holder := r.session()
	holder.begin("read committed")
	holder.exec(`select from public.outbox_events where id = $1 for update`, blocker)
	if got := r.claim("a"); len(got) != 1 || got[0].AggregateID == agg(1) {
		t.Errorf("claimed %d beside the lock, want the one that waits for nobody", len(got))
	}
	if n := value[int](r, `select count(*) from public.outbox_events where lane = 'queued'`); n != 0 {
		t.Errorf("%d were filed behind what is locked", n)
	}
	holder.commit()
	if got := r.claim("a"); len(got) != 0 {
		t.Errorf("claimed %+v", got)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where lane = 'queued'`); n < 500 || n > 1000 {
		t.Errorf("one claim filed %d, want a bounded number", n)
	}
	r.sound()
}
