package db_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// Every pair of things that happen to a rail, in two sessions: the second starts while
// the transaction of the first is open, or looks before and acts after the first. When
// both have ended, every mark agrees with the rows, and draining the rail brings
// everything in order and leaves nothing.

// An aggregate of the stage on which the pairs meet; the nth event's id is its letter and n.
const (
	parked    = 'X' // 1 discarded; 2 in flight; 3, 4 queued behind it; 5 of type b barred behind it
	unparked  = 'Y' // 1 discarded; 2 in flight; 3 and, of type b, 4 ready, nobody has looked yet
	idle      = 'Z' // 1, 2 ready
	exhausted = 'W' // 2 in flight; 3 queued behind it with 5 attempts; 4 queued
	expired   = 'E' // 2 in flight, its lease has run out; 3, 4 queued behind it
	history   = 'H' // 1 processed, 2 discarded
)

func staged(letter rune, n int) uuid.UUID { return uuid.UUID{0: byte(letter), 15: byte(n)} }

func stageArray(n int, letters ...rune) string {
	list := make([]string, len(letters))
	for i, letter := range letters {
		list[i] = "'" + staged(letter, n).String() + "'"
	}
	return "array[" + strings.Join(list, ", ") + "]::uuid[]"
}

// setStage fills an empty rail, filing by hand what claims would have filed.
func (r *rail) setStage() {
	r.Helper()
	const row = `('%s', clock_timestamp() - interval '1 hour' + %d * interval '1 second', clock_timestamp() + interval '%s', 'order', '%s', '%s', '%s', '%s', %d, '{}', '{"claimToken": "t"}', %s, %s, %v)`
	var rows []string
	add := func(letter rune, n int, kind, status string, attempts int, due, lane, blockedBy string, waited bool) {
		id := staged(letter, n)
		rows = append(rows, fmt.Sprintf(row, id, n, due, staged(letter, 0), kind, id, status, attempts, lane, blockedBy, waited))
	}
	const now, later, past = "-1 second", "1 hour", "-1 minute"
	add(parked, 1, "a", "discarded", 8, now, "null", "null", false)
	add(parked, 2, "a", "processing", 1, later, "'held'", "null", true)
	add(unparked, 1, "a", "discarded", 8, now, "null", "null", false)
	add(unparked, 2, "a", "processing", 1, later, "'ready'", "null", false) // by a large claim
	add(parked, 3, "a", "pending", 0, now, "'queued'", "null", false)
	add(parked, 4, "a", "pending", 0, now, "'queued'", "null", false)
	add(parked, 5, "b", "pending", 0, now, "'barred'", "'a'", false)
	add(unparked, 3, "a", "pending", 0, now, "'ready'", "null", false)
	add(unparked, 4, "b", "pending", 0, now, "'ready'", "null", false)
	add(idle, 1, "a", "pending", 0, now, "'ready'", "null", false)
	add(idle, 2, "a", "pending", 0, now, "'ready'", "null", false)
	add(exhausted, 2, "a", "processing", 1, later, "'held'", "null", true)
	add(exhausted, 3, "a", "failed", 5, now, "'queued'", "null", false)
	add(exhausted, 4, "a", "pending", 0, now, "'queued'", "null", false)
	add(expired, 2, "a", "processing", 1, past, "'ready'", "null", true)
	add(expired, 3, "a", "pending", 0, now, "'queued'", "null", false)
	add(expired, 4, "a", "pending", 0, now, "'queued'", "null", false)
	add(history, 1, "a", "processed", 1, now, "null", "null", false)
	add(history, 2, "a", "discarded", 1, now, "null", "null", false)
	r.exec(`insert into public.outbox_events (id, created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, status,
		attempts, payload, metadata, lane, blocked_by, waited) values ` + strings.Join(rows, ", "))
}

// everyone is all aggregates that move, for the producers.
var everyone = []rune{parked, unparked, idle, exhausted, expired}

// An act is one statement of a session.
type act struct{ name, sql string }

var acts = func() []act {
	heads := stageArray(2, parked, unparked, exhausted, expired)
	tokens := `array['t', 't', 't', 't']`
	next := stageArray(3, parked, unparked, exhausted, expired)
	all := stageArray(0, everyone...)
	set := func(assignment, ids string) string {
		return `update public.outbox_events set ` + assignment + ` where id = any (` + ids + `)`
	}
	return []act{
		{"enqueue", `select public.outbox_enqueue(array_fill('a'::text, array[10]), array(select gen_random_uuid()::text from generate_series(1, 10)),
			array_fill('order'::text, array[10]), ` + all + ` || ` + all + `, array_fill('{}'::text, array[10]))`},
		{"insert", `insert into ` + plainColumns + ` select 'order', x, k, gen_random_uuid(), '{}' from unnest(` + all + `) x, unnest(array['a', 'b']) k`},
		{"claim all", `select public.outbox_claim_events(array['a', 'b'], '{}', 50, 300, 5, p_many => 1)`},
		{"claim a", `select public.outbox_claim_batch(array['a'], p_max_attempts => 5)`},
		{"park b", `select public.outbox_claim_batch(array['b'])`},
		{"claim b, knowing a", `select public.outbox_claim_batch(array['b'], array['a'])`},
		{"ack", `select public.outbox_mark_processed_many(` + heads + `, ` + tokens + `)`},
		{"discard", `select public.outbox_mark_failed_many(` + heads + `, ` + tokens + `, ` + tokens + `, array_fill('discard'::text, array[4]))`},
		{"retry", `select public.outbox_mark_failed_many(` + heads + `, ` + tokens + `, ` + tokens + `, array_fill('retry'::text, array[4]), null, array[0, 0, 0, 0])`},
		{"release", `select public.outbox_release_unprocessed(` + heads + `, ` + tokens + `)`},
		{"extend", `select public.outbox_extend_leases(` + heads + `, ` + tokens + `)`},
		{"redrive", `select public.outbox_redrive(` + stageArray(1, parked, unparked) + `, 'me', 'test')`},
		{"heal", `select public.outbox_heal(1000)`},
		{"prune", `select public.outbox_prune(0, 1000, 0)`},
		{"discard heads by hand", set(`status = 'discarded'`, heads)},
		{"expire leases by hand", set(`available_at = clock_timestamp()`, heads)},
		{"move heads back by hand", set(`created_at = clock_timestamp()`, heads)},
		{"delete heads by hand", `delete from public.outbox_events where id = any (` + heads + `)`},
		{"discard the next by hand", set(`status = 'discarded'`, next)},
		{"postpone the next by hand", set(`available_at = clock_timestamp() + interval '1 hour'`, next)},
		{"retype the next by hand", set(`event_type = 'b', idempotency_key = gen_random_uuid()`, next)},
		{"delete the next by hand", `delete from public.outbox_events where id = any (` + next + `)`},
		{"reopen by hand", set(`status = 'pending'`, stageArray(1, parked, unparked))},
	}
}()

// Each act for itself: afterwards the marks agree with the rows already, without a drain
// or healing in between.
func TestActsAlone(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for _, only := range acts {
		for _, times := range []int{1, 2} {
			r.setStage()
			for range times {
				r.exec(only.sql)
			}
			r.endOfPlay(fmt.Sprintf("%q, %d times", only.name, times))
		}
	}
}

func TestInterleavings(t *testing.T) {
	t.Parallel()
	for _, first := range acts {
		t.Run(first.name, func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			a, b := r.session(), r.session()
			for _, second := range acts {
				if waited := r.meet(a, b, first, second, "read committed", "commit"); waited {
					r.meet(a, b, first, second, "read committed", "rollback")
				}
				r.lookThenAct(a, b, first, second, "repeatable read")
			}
		})
	}
}

// The pairs that decide about order, at the stricter levels.
func TestInterleavingsStrict(t *testing.T) {
	t.Parallel()
	names := []string{"enqueue", "insert", "claim all", "claim a", "ack", "discard", "release", "redrive"}
	for _, isolation := range []string{"repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			r := newRail(t)
			a, b := r.session(), r.session()
			for _, first := range acts {
				for _, second := range acts {
					if slices.Contains(names, first.name) && slices.Contains(names, second.name) {
						r.meet(a, b, first, second, isolation, "commit")
						r.lookThenAct(a, b, first, second, isolation)
					}
				}
			}
		})
	}
}

// meet runs the second act while the transaction of the first is open, and tells
// whether it waited for its end.
func (r *rail) meet(a, b *session, first, second act, isolation, end string) (waited bool) {
	r.Helper()
	what := fmt.Sprintf("%q beside %q (%s, %s)", second.name, first.name, isolation, end)
	r.setStage()
	a.begin(isolation)
	a.exec(first.sql)
	b.begin(isolation)
	acting := b.startExec(second.sql)
	ended, _ := acting.settle(r)
	a.exec(end)
	b.finish(what, acting.wait(), second)
	r.endOfPlay(what)
	return !ended
}

// lookThenAct gives the second transaction a snapshot from before the first act.
func (r *rail) lookThenAct(a, b *session, first, second act, isolation string) {
	r.Helper()
	what := fmt.Sprintf("%q after %q (%s)", second.name, first.name, isolation)
	r.setStage()
	b.begin(isolation)
	b.exec(`select from public.outbox_events limit 1`)
	a.exec(first.sql)
	_, err := b.conn.Exec(context.Background(), second.sql)
	b.finish(what, err, second)
	r.endOfPlay(what)
}

// finish commits the act, whose statement gave err. At the strict levels it may fail to
// serialize, and is then done again.
func (s *session) finish(what string, err error, done act) {
	s.Helper()
	if err == nil {
		_, err = s.conn.Exec(context.Background(), `commit`)
	}
	if err == nil {
		return
	}
	s.exec(`rollback`)
	if sqlState(err) != "40001" || strings.Contains(what, "read committed") {
		s.Errorf("%s: %v", what, err)
	}
	s.exec(done.sql)
}

// endOfPlay checks the marks, drains, and clears the stage.
func (r *rail) endOfPlay(what string) {
	r.Helper()
	if found := r.findings(); len(found) > 0 {
		r.Errorf("%s: outbox_check() finds %v", what, found)
	}
	if _, err := r.drained("a", "b"); err != nil {
		r.Errorf("%s: %v", what, err)
	}
	r.exec(`delete from public.outbox_events`)
}
