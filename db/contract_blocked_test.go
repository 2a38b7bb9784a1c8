package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// A blockedCase is a younger event of type mine and an older one in its aggregate; the
// claim asks for mine and what else claimed lists.
type blockedCase struct {
	name    string
	older   row
	claimed []any
	known   []any
	dormant string
	blocked bool
}

var blockedCases = []blockedCase{
	{name: "own type, not due", older: row{Type: "mine", Due: time.Hour}, blocked: true},
	{name: "own type, being handled", older: row{Type: "mine", Status: "processing", Due: time.Hour}, blocked: true},
	{name: "own type, retrying", older: row{Type: "mine", Status: "failed", Due: time.Hour}, blocked: true},
	{name: "own type, dormant", older: row{Type: "mine", Due: time.Hour}, dormant: "mine", blocked: true},
	{name: "own type, named known", older: row{Type: "mine", Due: time.Hour}, known: []any{"mine"}, blocked: true},
	{name: "own type, processed", older: row{Type: "mine", Status: "processed"}},
	{name: "own type, discarded", older: row{Type: "mine", Status: "discarded"}},
	{name: "claimed type, not due", older: row{Type: "other", Due: time.Hour}, claimed: []any{"other"}, blocked: true},
	{name: "claimed type, dormant", older: row{Type: "other", Due: time.Hour}, claimed: []any{"other"}, dormant: "other", blocked: true},
	{name: "claimed type, known too", older: row{Type: "other", Due: time.Hour}, claimed: []any{"other"}, known: []any{"other"}, blocked: true},
	{name: "claimed type, known and dormant", older: row{Type: "other", Due: time.Hour}, claimed: []any{"other"}, known: []any{"other"}, dormant: "other", blocked: true},
	{name: "claimed type, being handled", older: row{Type: "other", Status: "processing", Due: time.Hour}, claimed: []any{"other"}, blocked: true},
	{name: "known, due", older: row{Type: "other"}, known: []any{"other"}},
	{name: "known, not due", older: row{Type: "other", Due: time.Hour}, known: []any{"other"}},
	{name: "known, being handled", older: row{Type: "other", Status: "processing", Due: time.Hour}, known: []any{"other"}},
	{name: "known and dormant", older: row{Type: "other"}, known: []any{"other"}, dormant: "other"},
	{name: "unknown, due", older: row{Type: "other"}, blocked: true},
	{name: "unknown, not due", older: row{Type: "other", Due: time.Hour}, blocked: true},
	{name: "unknown, retrying", older: row{Type: "other", Status: "failed"}, blocked: true},
	{name: "unknown, being handled", older: row{Type: "other", Status: "processing", Due: time.Hour}, blocked: true},
	{name: "unknown, attempts spent", older: row{Type: "other", Attempts: 30}, blocked: true},
	{name: "unknown, processed", older: row{Type: "other", Status: "processed"}},
	{name: "unknown, discarded", older: row{Type: "other", Status: "discarded"}},
	{name: "unknown but dormant", older: row{Type: "other"}, dormant: "other"},
	{name: "unknown, another is dormant", older: row{Type: "other"}, dormant: "elsewhere", blocked: true},
	{name: "null and blank among the known", older: row{Type: "other"}, known: []any{nil, "", "  "}, blocked: true},
	{name: "null among the known beside it", older: row{Type: "other"}, known: []any{nil, "other", ""}},
	{name: "null and blank among the claimed", older: row{Type: "other"}, claimed: []any{nil, " "}, blocked: true},
	{name: "null among the claimed, known", older: row{Type: "other"}, claimed: []any{nil}, known: []any{"other"}},
	{name: "known under another spelling", older: row{Type: "other"}, known: []any{" other", "Other"}, blocked: true},
	{name: "other aggregate", older: row{Type: "other", Agg: 2}},
}

// 3. Blocked, each line, for a row as it was written and one that other consumers have
// already had a look at: what they filed must not change the answer.
func TestBlocked(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for _, c := range blockedCases {
		asked := 0
		for _, before := range []string{
			`select 1`,
			`select public.outbox_claim_batch(array['mine'])`,
			`select public.outbox_claim_batch(array['mine', 'other'])`,
			`select public.outbox_claim_batch(array['mine'], array['other']); update public.outbox_events set available_at = clock_timestamp(), status = 'pending', attempts = 0 where event_type = 'mine' and status = 'processing'`,
		} {
			r.exec(`delete from public.outbox_events; delete from public.outbox_dormant_event_types`)
			if c.check(r, before) {
				asked++
			}
			r.sound()
		}
		if asked < 2 {
			t.Errorf("%s: asked only %d times", c.name, asked)
		}
	}
}

func (c blockedCase) check(r *rail, before string) (asked bool) {
	r.Helper()
	older := c.older
	older.Age = 2e9
	if older.Agg == 0 {
		older.Agg = 1
	}
	r.insert(older)
	mine := r.insert(row{Type: "mine", Agg: 1, Age: 1e9})
	saved := r.events(`select * from public.outbox_events`)
	if c.dormant != "" {
		r.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ($1, 'team', 'not yet')`, c.dormant)
	}
	r.exec(before)
	if r.changed(saved) { // the other consumer took one for itself: then there is nothing to ask
		return false
	}
	got := r.events(`select * from public.outbox_claim_batch($1, $2)`, append(c.claimed, "mine"), c.known)
	if claimed := len(got) == 1 && got[0].ID == mine; claimed == c.blocked {
		r.Errorf("%s, after %s: claimed %v, want blocked %v", c.name, before, ids(got), c.blocked)
	}
	return true
}

// changed tells whether a contract column of the rows, by which a claim decides, is
// another than before.
func (r *rail) changed(before []event) bool {
	r.Helper()
	for _, e := range before {
		now := r.event(e.ID)
		if now.Status != e.Status && now.Status != "pending" || now.Attempts != e.Attempts {
			return true
		}
	}
	return false
}

// 3. Blocked: by (created_at, id), by older rows only, in the same (aggregate_type,
// aggregate_id) only.
func TestBlockedByAge(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	low, high := uuid.UUID{15: 1}, uuid.UUID{15: 2}
	insert := func(id uuid.UUID, at string, aggregateType string) {
		r.exec(`insert into public.outbox_events (id, created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
			values ($1, $2::timestamptz, $3, $4, case $1::uuid when $5::uuid then 'low' else 'high' end, gen_random_uuid(), '{}')`, id, at, aggregateType, agg(1), low)
	}
	for _, c := range []struct {
		name                string
		lowAt, highAt       string
		lowOf, highOf       string
		lowFree, highFreeOf bool
	}{
		{"same time: the lower id is older", "2001-01-01", "2001-01-01", "order", "order", true, false},
		{"the time comes before the id", "2001-01-02", "2001-01-01", "order", "order", false, true},
		{"by a microsecond", "2001-01-01 00:00:00.000001", "2001-01-01", "order", "order", false, true},
		{"other aggregate type", "2001-01-01", "2001-01-01", "order", "invoice", true, true},
	} {
		r.exec(`delete from public.outbox_events`)
		insert(low, c.lowAt, c.lowOf)
		insert(high, c.highAt, c.highOf)
		for _, claim := range []struct {
			kind string
			free bool
		}{{"low", c.lowFree}, {"high", c.highFreeOf}} {
			tx := r.session()
			tx.begin("read committed")
			if got := tx.claim(claim.kind); (len(got) == 1) != claim.free {
				t.Errorf("%s: %s claimed %d, want free %v", c.name, claim.kind, len(got), claim.free)
			}
			tx.exec(`rollback`)
		}
	}
}

// 3. Blocked: one call hands out at most one event of an aggregate, of all claimed
// types together.
func TestBlockedWithinBatch(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	var want []uuid.UUID
	for i := range 10 {
		want = append(want, r.insert(row{Agg: i, Type: string(rune('a' + i%3)), Age: time.Hour - time.Duration(i)*time.Second}))
	}
	for i := range 30 {
		r.insert(row{Agg: i % 10, Type: string(rune('a' + i%3)), Age: time.Minute})
	}
	if diff := cmp.Diff(want, ids(r.claim("a", "b", "c"))); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	if n := len(r.claim("a", "b", "c")); n != 0 {
		t.Errorf("claimed %d beside those in flight", n)
	}
	r.sound()
}

// 3. Blocked: going dormant frees what waits, waking up blocks again.
func TestBlockedDormantComesAndGoes(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{Type: "other", Agg: 1, Age: 9e9})
	r.insert(row{Agg: 1, Age: 8e9})
	r.insert(row{Agg: 1, Age: 7e9})
	if n := len(r.claim("a")); n != 0 {
		t.Fatalf("claimed %d behind an unknown type", n)
	}
	r.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('other', 'team', 'not yet')`)
	r.ack(r.claimOne("a"))
	r.exec(`delete from public.outbox_dormant_event_types`)
	if n := len(r.claim("a")); n != 0 {
		t.Fatalf("claimed %d behind an unknown type", n)
	}
	r.sound()
	r.ack(r.claimOne("other"))
	r.claimOne("a")
	r.sound()
}

// 3. Blocked: what is filed behind a type is handed out to whom that type does not
// concern, in order and one at a time; and the next consumer finds it in place.
func TestBlockedAcrossConsumers(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{Type: "u", Agg: 1, Age: 9e9})
	first := r.insert(row{Type: "a", Agg: 1, Age: 8e9})
	r.insert(row{Type: "v", Agg: 1, Age: 7e9})
	second := r.insert(row{Type: "a", Agg: 1, Age: 6e9})
	knows := func(known ...string) []uuid.UUID {
		got := r.events(`select * from public.outbox_claim_batch(array['a'], $1)`, known)
		if n := r.ackAll(got); n != len(got) {
			t.Fatal("not acknowledged")
		}
		r.sound()
		return ids(got)
	}
	for i, step := range []struct {
		known []string
		want  []uuid.UUID
	}{
		{nil, []uuid.UUID{}}, {[]string{"v"}, []uuid.UUID{}},
		{[]string{"u"}, []uuid.UUID{first}}, {[]string{"u"}, []uuid.UUID{}}, {[]string{"v"}, []uuid.UUID{}},
		{[]string{"u", "v"}, []uuid.UUID{second}},
	} {
		if diff := cmp.Diff(step.want, knows(step.known...)); diff != "" {
			t.Errorf("step %d, known %v (-want +got):\n%s", i, step.known, diff)
		}
	}
}
