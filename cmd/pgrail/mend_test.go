package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestRedrive(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	w.insert(11, 8, "order.billed", 6)
	w.settle(11, "order.billed", "discard", "bad")
	s.run("redrive", "--type=order.refunded", "--dry-run")
	s.run("redrive", "--type=order.refunded", "--reason=account is there now")
	s.run("redrive", "--type=order.refunded", "--reason=account is there now", "--by=ann", "--yes")
	s.run("redrive", "--type=order.refunded", "--reason=again", "--yes")
	s.run("redrive", id(11).String(), id(11).String(), id(1).String(), uuid.Max.String(), "--reason=mended", "--by=ann")
	s.run("redrive", uuid.Max.String(), "--reason=mended")
	s.run("redrive", uuid.Max.String(), "--dry-run")
	s.run("redrive", "--json", id(3).String(), "--reason=mended")
	s.run("redrive", "--aggregate="+order(1), "--discard-reason=max_attempts", "--dry-run")
	s.compare("redrive")
	const said = `select concat_ws(', ', status, attempts::text, metadata ->> 'redrivenBy', metadata ->> 'redriveReason') from public.outbox_events where id = $1`
	if got, want := w.text(said, id(3)), "pending, 0, ann, account is there now"; got != want {
		t.Errorf("the redriven event: %s, want %s", got, want)
	}
	if halted := w.text(`select count(*)::text from public.outbox_halted_aggregates`); halted != "0" {
		t.Errorf("%s aggregates are still halted", halted)
	}
}

// More than one transaction holds is redriven in the old order, oldest first.
func TestRedriveOfManyKeepsTheirOrder(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.exec(`insert into public.outbox_events (created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, metadata)
		select clock_timestamp() - make_interval(mins => g), 'order', gen_random_uuid(), 'a', g, '{}', 'discarded', '{"discardReason": "max_attempts"}'
		from generate_series(1, 1200) g`)
	if r := pgrail(t, s.url, "redrive", "--all", "--limit=1100", "--discard-reason=max_attempts", "--reason=x", "--yes"); r.code != 0 || r.out != "1100 redriven\n" {
		t.Fatalf("exit status %d\n%s%s", r.code, r.out, r.err)
	}
	got := w.text(`select concat_ws(' ', count(*), count(distinct at), bool_and(previous is null or previous <= at)) from (
		select metadata ->> 'redrivenAt' as at, lag(metadata ->> 'redrivenAt') over (order by created_at) as previous from public.outbox_events where status = 'pending') x`)
	if got != "1100 3 t" {
		t.Errorf("events, transactions, in order: %s", got)
	}
	if oldest := w.text(`select max(idempotency_key::integer)::text from public.outbox_events where status = 'discarded'`); oldest != "100" {
		t.Errorf("the oldest left is number %s, want 100: the oldest come first", oldest)
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	s.run("discard", id(1).String(), "--reason=never sent")
	s.run("discard", id(1).String(), "--reason=never sent", "--by=ann", "--yes")
	s.run("discard", id(8).String(), id(7).String(), uuid.Max.String(), "--reason=x", "--yes")
	s.run("discard", "--status=failed", "--dry-run")
	s.run("discard", "--type=order.shipped", "--reason=x", "--by=ann", "--yes")
	s.run("discard", "--aggregate="+order(1), "--json", "--reason=x", "--by=ann", "--yes")
	s.run("discard", "--all", "--limit=1", "--json", "--dry-run")
	s.run("discard", uuid.Max.String(), "--dry-run")
	s.run("discard", "--type=no.such", "--reason=x")
	s.compare("discard")
	const said = `select concat_ws(', ', status, metadata ->> 'discardReason', metadata ->> 'discardedBy', metadata ->> 'discardNote') from public.outbox_events where id = $1`
	if got, want := w.text(said, id(1)), "discarded, operator, ann, never sent"; got != want {
		t.Errorf("the discarded event: %s, want %s", got, want)
	}
}

// The youngest go first, so that giving up one does not hand out the next.
func TestDiscardOfManyHandsOutNone(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.exec(`insert into public.outbox_events (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		select clock_timestamp() - make_interval(mins => g), now(), 'order', $1, 'a', g, '{}' from generate_series(1, 1200) g`, id(1))
	if r := pgrail(t, s.url, "discard", "--type=a", "--limit=1100", "--reason=x", "--yes"); r.code != 0 || r.out != "1100 discarded\n" {
		t.Fatalf("exit status %d\n%s%s", r.code, r.out, r.err)
	}
	got := w.text(`select concat_ws(' ', count(*), count(distinct at), bool_and(next is null or next <= at)) from (
		select metadata ->> 'discardedAt' as at, lead(metadata ->> 'discardedAt') over (order by created_at) as next from public.outbox_events where status = 'discarded') x`)
	if got != "1100 3 t" {
		t.Errorf("events, transactions, in order: %s", got)
	}
	if youngest := w.text(`select min(idempotency_key::integer)::text from public.outbox_events where status = 'pending'`); youngest != "1101" {
		t.Errorf("the youngest left is number %s, want 1101", youngest)
	}
}

// Whoever runs the command is recorded where nobody else is named.
func TestWhoIsRecorded(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	if r := pgrail(t, s.url, "discard", id(1).String(), "--reason=x", "--yes"); r.code != 0 {
		t.Fatal(r.err)
	}
	if by := w.text(`select metadata ->> 'discardedBy' from public.outbox_events where id = $1`, id(1)); by == "" || by != who("") {
		t.Errorf("discarded by %q, want %q", by, who(""))
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	s.run("resume", order(2))
	s.run("resume", order(2))
	s.run("resume", order(1))
	w.exec(`insert into public.outbox_halted_aggregates (aggregate_type, aggregate_id, event_id, event_type, reason) values ('order', $1, $2, 'a', 'b')`, id(0xa1), id(1))
	s.run("resume", "--json", order(1))
	s.compare("resume")
}

func TestDormant(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	s.run("dormant", "list")
	s.run("dormant", "add", "order.archived", "--owner=archive team", "--reason=their consumer comes in May")
	s.run("dormant", "add", "order.archived", "--owner=archive team", "--reason=in June", "--json")
	s.run("dormant", "list")
	s.run("dormant", "remove", "order.archived")
	s.run("dormant", "remove", "order.archived")
	s.compare("dormant")
	if n := w.text(`select count(*)::text from public.outbox_dormant_event_types`); n != "0" {
		t.Errorf("%s are left", n)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	s, _ := newTranscript(t)
	s.run("policy", "list")
	s.run("policy", "set", "order.paid", "--max-attempts=3", "--max-snoozes=50", "--on-discard=halt")
	s.run("policy", "set", "order.shipped")
	s.run("policy", "list")
	s.run("policy", "list", "--json")
	s.run("policy", "remove", "order.paid")
	s.run("policy", "remove", "order.paid")
	s.compare("policy")
}

// Pruning goes in batches, keeps the window in which duplicates are recognised, and what halts an aggregate.
func TestPrune(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	w.exec(`insert into public.outbox_events (created_at, processed_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status)
		select now() - interval '40 days', now() - make_interval(days => g), 'order', gen_random_uuid(), 'old', g, '{}', 'processed' from generate_series(1, 40) g`)
	w.exec(`insert into public.outbox_events (created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status)
		select now() - make_interval(days => g), 'order', gen_random_uuid(), 'old', 'discarded ' || g, '{}', 'discarded' from generate_series(1, 40) g`)
	s.run("prune", "--keep=30d", "--dry-run")
	s.run("prune", "--keep=30d", "--keep-discarded=5w")
	s.run("prune", "--keep=30d", "--keep-discarded=5w", "--batch=3", "--yes")
	s.run("prune", "--keep=30d", "--keep-discarded=5w", "--json", "--yes")
	s.run("prune", "--keep=0s", "--keep-discarded=1s", "--yes")
	s.compare("prune")
	if kept := w.text(`select string_agg(status, ' ' order by status) from public.outbox_events where status in ('processed', 'discarded')`); kept != "discarded" {
		t.Errorf("kept %s, want the one that halts its aggregate", kept)
	}
}

// Records of webhooks are forgotten only when asked, of the sources that were asked for, in batches.
func TestPruneInbox(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.exec(`insert into public.webhook_inbox_entries (source, key, received_at)
		select s, sha256((s || g)::bytea), now() - make_interval(days => g) from unnest(array['bank', 'github', 'shop']) s, generate_series(1, 40) g`)
	s.run("prune", "--keep=0s", "--yes")
	s.run("prune", "--keep-inbox=30d", "--dry-run")
	s.run("prune", "--keep-inbox=30d", "--source=shop", "--source=nobody")
	s.run("prune", "--keep-inbox=30d", "--source=shop", "--batch=3", "--yes")
	s.run("prune", "--keep=30d", "--keep-inbox=30d", "--yes", "--json")
	s.compare("prune_inbox")
	left := w.text(`select string_agg(source || ' ' || n || ' ' || youngest, ', ' order by source) from (
		select source, count(*) n, extract(day from now() - min(received_at)) youngest from public.webhook_inbox_entries group by source) x`)
	if left != "bank 29 29, github 29 29, shop 29 29" {
		t.Errorf("left: %s", left)
	}
}

// A duplicate is recognised while the first event is kept, and no longer.
func TestPruneEndsTheDedupeWindow(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.exec(`insert into public.outbox_events (created_at, processed_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, status)
		values (now(), now() - interval '29 days', 'order', $1, 'a', 'k', '{}', 'processed')`, id(1))
	enqueue := func() string {
		return w.text(`select duplicate::text from public.outbox_enqueue(array['a'], array['k'], array['order'], array[$1::uuid], array['{}'])`, id(1))
	}
	for _, c := range []struct{ keep, duplicate string }{{"30d", "true"}, {"28d", "false"}} {
		if r := pgrail(t, s.url, "prune", "--keep="+c.keep, "--yes"); r.code != 0 {
			t.Fatal(r.err)
		}
		if got := enqueue(); got != c.duplicate {
			t.Errorf("after --keep=%s: duplicate %s, want %s", c.keep, got, c.duplicate)
		}
	}
}

// A refusal leaves everything as it was.
func TestNothingIsChangedWithoutConsent(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	const all = `select md5(string_agg(e::text, ' ' order by e.id)) from public.outbox_events e`
	before := w.text(all)
	for _, args := range []string{
		"redrive --all --reason=x", "redrive --all --dry-run", "redrive --all --dry-run --yes", "discard --all --reason=x",
		"discard --all --dry-run --yes", fmt.Sprintf("discard %s --reason=x", id(1)), fmt.Sprintf("redrive %s --dry-run", id(3)),
		"prune --keep=0s", "prune --keep=0s --dry-run --yes --keep-discarded=1s",
	} {
		r := pgrail(t, s.url, strings.Fields(args)...)
		want := exitRefused
		if strings.Contains(args, "--dry-run") {
			want = 0
		}
		if r.code != want || w.text(all) != before {
			t.Errorf("%s: exit status %d, want %d, and nothing changed\n%s%s", args, r.code, want, r.out, r.err)
		}
	}
}
