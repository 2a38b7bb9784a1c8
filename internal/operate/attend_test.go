package operate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/db"
)

func (b *box) discard(ids ...uuid.UUID) []string {
	b.Helper()
	return column[string](b, `select outcome from public.outbox_discard($1, 'me', 'no use')`, ids)
}

func TestDiscardByHand(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	pending, behind := b.insert(1, 1, "a", 10), b.insert(2, 1, "a", 9)
	held, expired, gone := b.insert(3, 3, "held", 8), b.insert(4, 4, "expired", 7), b.insert(5, 5, "done", 6)
	b.claim("held")
	b.claim("expired")
	b.exec(`update public.outbox_events set available_at = clock_timestamp() - interval '1 second' where id = $1`, expired)
	for id, token := range b.claim("done") {
		b.exec(`select public.outbox_mark_processed($1, $2)`, id, token)
	}
	got := b.discard(gone, held, pending, uuid.Max, expired, pending)
	if diff := cmp.Diff([]string{"at_rest", "in_flight", "discarded", "not_found", "discarded", "discarded"}, got); diff != "" {
		t.Fatalf("outcomes, in the order asked (-want +got):\n%s", diff)
	}
	want := "discarded operator me no use 0"
	for _, id := range []uuid.UUID{pending, expired} {
		const said = `select concat_ws(' ', status, metadata ->> 'discardReason', metadata ->> 'discardedBy', metadata ->> 'discardNote', attempts)
			from public.outbox_events where id = $1 and (metadata ->> 'discardedAt')::timestamptz > clock_timestamp() - interval '1 minute'
			and metadata ->> 'finalAttempts' = attempts::text`
		if got := value[string](b, said, id); got != want {
			t.Errorf("event %s: %s, want %s", id, got, want)
		}
		want = "discarded operator me no use 1"
	}
	b.sound()
	if tokens := b.claim("a"); tokens[behind] == "" {
		t.Errorf("claimed %v; want the one that stood behind the discarded one", tokens)
	}
}

// An event that was parked behind the discarded one goes at once, and one behind another type's too.
func TestDiscardLetsTheParkedGo(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	head := b.insert(1, 1, "first", 10)
	queued, barred := b.insert(2, 1, "first", 9), b.insert(3, 1, "second", 8)
	b.claim("first") // parks the second of them
	b.claim("second")
	b.exec(`update public.outbox_events set available_at = clock_timestamp() where id = $1`, head)
	if lanes := column[string](b, `select lane from public.outbox_events where id = any ($1) order by id`, []uuid.UUID{queued, barred}); !cmp.Equal(lanes, []string{"queued", "barred"}) {
		t.Fatalf("parked in %v", lanes)
	}
	b.discard(head)
	b.sound()
	b.discard(queued)
	b.sound()
	if tokens := b.claim("second"); tokens[barred] == "" {
		t.Errorf("claimed %v, want %s", tokens, barred)
	}
}

// A policy to halt asks a person to decide; a discard by hand is the decision.
func TestDiscardByHandHaltsNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`insert into public.outbox_event_policies (event_type, on_discard) values ('a', 'halt')`)
	head, next := b.insert(1, 1, "a", 10), b.insert(2, 1, "a", 9)
	b.discard(head)
	if n := value[int](b, `select count(*)::integer from public.outbox_halted_aggregates`); n != 0 {
		t.Errorf("%d aggregates halted", n)
	}
	if tokens := b.claim("a"); tokens[next] == "" {
		t.Errorf("claimed %v, want %s", tokens, next)
	}
	if got := column[string](b, `select outcome from public.outbox_redrive(array[$1::uuid], 'me', 'changed my mind')`, head); !cmp.Equal(got, []string{"in_flight"}) {
		t.Errorf("redriven beside its successor: %v", got)
	}
}

func TestDiscardRefuses(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	for name, args := range map[string]string{
		"no ids":       `null, 'me', 'why'`,
		"too many ids": `(select array_agg(gen_random_uuid()) from generate_series(1, 1001)), 'me', 'why'`,
		"nobody":       `'{}', ' ', 'why'`,
		"null":         `'{}', null, 'why'`,
		"no reason":    `'{}', 'me', ''`,
	} {
		_, err := b.sql.Exec(t.Context(), `select public.outbox_discard(`+args+`)`)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22023" || pgErr.Message != "outbox_discard_invalid_input" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// overview is one line per type.
func (b *box) overview(limit int32, idle float64) (lines []string) {
	b.Helper()
	rows, err := db.New(b.sql).OperateOverview(b.Context(), db.OperateOverviewParams{AtMost: limit, IdleSeconds: idle})
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("%s waiting %d due %d in flight %d failed %d blocked %d discarded %d oldest %.0fm rate %.2f%s%s", r.EventType,
			r.Waiting, r.Due, r.InFlight, r.Failed, r.Blocked, r.Discarded, r.OldestAgeSeconds/60, r.PerSecond,
			map[bool]string{true: " dormant"}[r.Dormant], map[bool]string{true: " unclaimed"}[r.Unclaimed]))
	}
	return lines
}

func TestOverview(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.insert(1, 1, "orphan", 10)
	b.insert(2, 2, "orphan", 7)
	b.insert(3, 3, "dormant", 10)
	b.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('dormant', 'me', 'later')`)
	b.insert(4, 4, "busy", 10)
	b.insert(5, 4, "busy", 9)
	b.insert(15, 4, "busy", 9)
	b.claim("busy")
	b.insert(6, 6, "busy", 8)
	b.insert(7, 7, "retried", 10)
	b.exec(`update public.outbox_events set status = 'failed', attempts = 2, available_at = clock_timestamp() + interval '1 hour' where id = $1`, id(7))
	b.insert(8, 8, "retried", 9)
	b.insert(9, 9, "done", 10)
	for id, token := range b.claim("done") {
		b.exec(`select public.outbox_mark_processed($1, $2)`, id, token)
	}
	b.insert(10, 10, "given up", 10)
	b.discard(id(10))
	b.insert(11, 11, "announced", 10)
	b.exec(`insert into public.outbox_workers (holder, event_types) values (gen_random_uuid(), array['announced'])`)
	b.insert(12, 12, "abandoned", 10)
	b.exec(`insert into public.outbox_workers (holder, event_types, seen_at) values (gen_random_uuid(), array['abandoned'], now() - interval '2 minutes')`)
	b.insert(13, 13, "overdue", 10)
	b.exec(`update public.outbox_events set lane = 'timed', status = 'failed', attempts = 1 where id = $1`, id(13))
	b.insert(14, 14, "fresh", 1)
	want := []string{
		"abandoned waiting 1 due 1 in flight 0 failed 0 blocked 0 discarded 0 oldest 10m rate 0.00 unclaimed",
		"announced waiting 1 due 1 in flight 0 failed 0 blocked 0 discarded 0 oldest 10m rate 0.00",
		"busy waiting 3 due 1 in flight 1 failed 0 blocked 2 discarded 0 oldest 8m rate 0.00",
		"done waiting 0 due 0 in flight 0 failed 0 blocked 0 discarded 0 oldest 0m rate 0.02",
		"dormant waiting 1 due 1 in flight 0 failed 0 blocked 0 discarded 0 oldest 10m rate 0.00 dormant",
		"fresh waiting 1 due 1 in flight 0 failed 0 blocked 0 discarded 0 oldest 1m rate 0.00",
		"given up waiting 0 due 0 in flight 0 failed 0 blocked 0 discarded 1 oldest 0m rate 0.00",
		"orphan waiting 2 due 2 in flight 0 failed 0 blocked 0 discarded 0 oldest 10m rate 0.00 unclaimed",
		"overdue waiting 1 due 1 in flight 0 failed 1 blocked 0 discarded 0 oldest 10m rate 0.00 unclaimed",
		"retried waiting 2 due 1 in flight 0 failed 1 blocked 0 discarded 0 oldest 9m rate 0.00",
	}
	if diff := cmp.Diff(want, b.overview(10000, 300)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := strings.Join(b.overview(1, 3600), "\n"); !strings.Contains(got, "orphan waiting 1 due 1 ") || strings.Contains(got, "unclaimed") {
		t.Errorf("counted to 1, idle from an hour on:\n%s", got)
	}
}

// The rate of a busy rail is that of its newest 10000.
func TestOverviewRateOfABusyRail(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, processed_at)
		select 'a', gen_random_uuid(), 'a', g, '{}', 'processed', clock_timestamp() - interval '2 milliseconds' * g from generate_series(1, 12000) g`)
	rows, err := db.New(b.sql).OperateOverview(t.Context(), db.OperateOverviewParams{AtMost: 100, IdleSeconds: 300})
	if err != nil {
		t.Fatal(err)
	}
	// 10000 within 20 s, and what the insert took.
	if len(rows) != 1 || rows[0].PerSecond < 250 || rows[0].PerSecond > 500 {
		t.Errorf("%+v, want one type at nearly 500 per second", rows)
	}
}

func TestBlockedAggregates(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.insert(1, 1, "orphan", 30) // one that nobody takes, and its aggregate
	b.insert(2, 1, "a", 29)
	b.insert(3, 1, "a", 28)
	b.insert(4, 4, "failing", 20)
	b.exec(`update public.outbox_events set status = 'failed', attempts = 3, available_at = clock_timestamp() + interval '1 hour' where id = $1`, id(4))
	b.insert(5, 4, "a", 19)
	b.insert(6, 6, "a", 50) // blocks nobody
	b.insert(7, 7, "dormant", 40)
	b.insert(8, 7, "a", 39)
	b.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('dormant', 'me', 'later')`)
	b.insert(9, 9, "fresh", 0)
	b.insert(10, 9, "a", 0)
	b.insert(11, 11, "orphan", 10) // behind a dormant one, which does not count
	b.insert(12, 11, "a", 9)
	b.insert(13, 11, "dormant", 11)
	read := func(limit int32) (lines []string) {
		rows, err := db.New(b.sql).OperateBlockedAggregates(t.Context(), db.OperateBlockedAggregatesParams{OlderSeconds: 60, AtMost: limit})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			lines = append(lines, fmt.Sprintf("%d %s %s %s %d attempts, %.0fm old, due in %.0fm, before %d", r.AggregateID[15], r.EventType, r.Status, r.Reason,
				r.Attempts, r.AgeSeconds/60, r.DueInSeconds/60, r.WaitingBehind))
		}
		return lines
	}
	want := []string{
		"1 orphan pending claimable 0 attempts, 30m old, due in -30m, before 2",
		"4 failing failed not_due 3 attempts, 20m old, due in 60m, before 1",
		"11 orphan pending claimable 0 attempts, 10m old, due in -10m, before 1",
	}
	if diff := cmp.Diff(want, read(20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:1], read(1)); diff != "" {
		t.Errorf("the first (-want +got):\n%s", diff)
	}
}
