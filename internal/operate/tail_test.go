package operate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/internal/operate"
)

type watch struct {
	*box
	f *operate.Follower
}

// sees looks once and compares, in any order.
func (w *watch) sees(want ...string) {
	w.Helper()
	moves, err := w.f.Look(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, m := range moves {
		line := fmt.Sprintf("%d %s %d", m.ID[15], m.What, m.Attempts)
		if m.Detail != "" {
			line += " " + m.Detail
		}
		got = append(got, line)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("(-want +got):\n%s", diff)
	}
}

// fresh writes an event now, with an id made from the clock and n.
func (b *box) fresh(n byte, eventType string) uuid.UUID {
	b.Helper()
	return value[uuid.UUID](b, `insert into public.outbox_events (id, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		values (overlay(public.outbox_event_id()::text placing $1::text from 35)::uuid, 'order', $2, $3, gen_random_uuid(), '{}') returning id`,
		fmt.Sprintf("%02x", n), id(n), eventType)
}

func TestFollowerSeesEachMove(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	old := b.insert(1, 1, "old", 60)
	w := watch{b, operate.NewFollower(db.New(b.sql))}
	w.sees() // what is there is not news
	first := b.fresh(2, "a")
	w.sees("2 enqueued 0")
	w.sees()
	token := b.claim("a")[first]
	w.sees("2 claimed 1")
	b.exec(`select public.outbox_mark_failed($1, $2, 'no answer')`, first, token)
	w.sees("2 failed 1 no answer")
	b.exec(`update public.outbox_events set available_at = clock_timestamp() where id = $1`, first)
	token = b.claim("a")[first]
	b.exec(`select public.outbox_release_unprocessed(array[$1::uuid], array[$2::text])`, first, token)
	w.sees("2 reopened 1") // the claim in between is not seen
	token = b.claim("a")[first]
	w.sees("2 claimed 2")
	b.exec(`select public.outbox_release_unprocessed(array[$1::uuid], array[$2::text])`, first, token)
	w.sees("2 released 1")
	token = b.claim("a")[first]
	b.exec(`select public.outbox_mark_failed($1, $2, 'broken', 'discard')`, first, token)
	w.sees("2 discarded 2 permanent_error")
	b.exec(`select public.outbox_redrive(array[$1::uuid], 'me', 'mended')`, first)
	w.sees("2 reopened 0")
	b.exec(`select public.outbox_mark_processed($1, $2)`, first, b.claim("a")[first])
	w.sees("2 processed 1")
	b.exec(`delete from public.outbox_events where id = any ($1)`, []uuid.UUID{first, old})
	w.sees("1 deleted 0", "2 deleted 1")
	w.sees()
}

// What has waited for long comes into view when those ahead of it have gone; it has not moved.
func TestFollowerTellsOldFromNew(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`insert into public.outbox_events (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		select clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 hour', 'order', gen_random_uuid(), 'a', g, '{}' from generate_series(1, 600) g`)
	w := watch{b, operate.NewFollower(db.New(b.sql))}
	w.sees()
	b.exec(`delete from public.outbox_events where id in (select id from public.outbox_recent(5, 200) limit 100)`)
	moves, err := w.f.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(moves, func(m operate.Move) bool { return m.What != "deleted" }) || len(moves) != 100 {
		t.Errorf("%d moves, want 100, all of them deleted: %v", len(moves), moves[:min(len(moves), 3)])
	}
	w.sees()
}

// What is known keeps to its bound, and says when that is reached.
func TestFollowerSaysWhenItIsFull(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	w := watch{b, operate.NewFollower(db.New(b.sql))}
	for n := range 30 {
		b.exec(`insert into public.outbox_events (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
			select clock_timestamp(), clock_timestamp(), 'order', gen_random_uuid(), 'type ' || ($1::integer * 400 + g), g, '{}' from generate_series(1, 400) g`, n)
		if _, err := w.f.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.f.Full {
			return
		}
	}
	t.Error("12000 events are followed")
}
