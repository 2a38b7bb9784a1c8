package db_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// Arguments of outbox_claim_batch: p_batch_size, default 25, clamped to 1..100.
func TestClaimBatchSize(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for i := range 110 {
		r.insert(row{Agg: i})
	}
	for _, c := range []struct {
		size string
		want int
	}{{"null", 25}, {"25", 25}, {"3", 3}, {"1", 1}, {"0", 1}, {"-7", 1}, {"100", 100}, {"101", 100}, {"2147483647", 100}} {
		got := r.events(`select * from public.outbox_claim_batch(array['a'], p_batch_size => ` + c.size + `)`)
		if len(got) != c.want {
			t.Errorf("p_batch_size %s: %d rows, want %d", c.size, len(got), c.want)
		}
		r.exec(`select public.outbox_release_unprocessed($1, $2)`, ids(got), tokens(got))
	}
	if got := r.events(`select * from public.outbox_claim_batch(array['a'])`); len(got) != 25 {
		t.Errorf("omitted: %d rows, want 25", len(got))
	}
}

// Arguments of outbox_claim_batch: p_visibility_seconds, default 300, clamped to 300..3600.
func TestClaimVisibility(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{})
	for argument, want := range map[string]float64{
		"": 300, ", p_visibility_seconds => null": 300, ", p_visibility_seconds => 0": 300, ", p_visibility_seconds => -1": 300,
		", p_visibility_seconds => 299": 300, ", p_visibility_seconds => 900": 900, ", p_visibility_seconds => 3601": 3600,
	} {
		got := r.events(`select * from public.outbox_claim_batch(array['a']` + argument + `)`)[0]
		lease := value[float64](r, `select extract(epoch from available_at - (metadata ->> 'lastClaimedAt')::timestamptz)::float8 from public.outbox_events`)
		if math.Abs(lease-want) > 0.001 {
			t.Errorf("%q: leased for %v s, want %v", argument, lease, want)
		}
		r.exec(`select public.outbox_release_unprocessed(array[$1]::uuid[], array[$2])`, got.ID, got.token())
	}
}

// Arguments of outbox_claim_batch: p_max_attempts, default 8, clamped to 1..20.
func TestClaimMaxAttempts(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for i, c := range []struct {
		argument string
		limit    int
	}{{"", 8}, {"null", 8}, {"8", 8}, {"3", 3}, {"1", 1}, {"0", 1}, {"-4", 1}, {"20", 20}, {"21", 20}, {"1000000", 20}} {
		kind := fmt.Sprint("type", i)
		below := r.insert(row{Type: kind, Agg: 10 * i, Attempts: c.limit - 1})
		spent := r.insert(row{Type: kind, Agg: 10*i + 1, Attempts: c.limit})
		above := r.insert(row{Type: kind, Agg: 10*i + 2, Attempts: c.limit + 30})
		call := `select * from public.outbox_claim_batch(array[$1])`
		if c.argument != "" {
			call = `select * from public.outbox_claim_batch(array[$1], p_max_attempts => ` + c.argument + `)`
		}
		if diff := cmp.Diff([]uuid.UUID{below}, ids(r.events(call, kind))); diff != "" {
			t.Errorf("p_max_attempts %q (-want +got):\n%s", c.argument, diff)
		}
		if a, b := r.event(spent).Status, r.event(above).Status; a != "discarded" || b != "discarded" {
			t.Errorf("p_max_attempts %q: the spent ones are %s and %s", c.argument, a, b)
		}
	}
}

// 1. Exhausted rows go first: which ones, and what becomes of them.
func TestClaimExhausted(t *testing.T) {
	t.Parallel()
	r := newRail(t)

	for i, c := range []struct {
		name  string
		row   row
		error string
	}{
		{"pending", row{Status: "pending"}, " | max_attempts_exhausted_at_claim"},
		{"failed with an error", row{Status: "failed", Error: text("boom")}, "boom | max_attempts_exhausted_at_claim"},
		{"processing, lease run out", row{Status: "processing", Due: -1e9}, " | max_attempts_exhausted_at_claim"},
		{"cut to 2000", row{Error: text(strings.Repeat("ü", 1990))}, strings.Repeat("ü", 1990) + " | max_att"},
		{"already 2000", row{Error: text(strings.Repeat("e", 3000))}, strings.Repeat("e", 2000)},
	} {
		w := c.row
		w.Type, w.Agg, w.Attempts, w.Metadata = "exhausted", i, 8+i, `{"kept": [1]}`
		id := r.insert(w)
		if got := r.claim("exhausted"); len(got) != 0 {
			t.Errorf("%s: handed out", c.name)
		}
		got := r.event(id)
		if got.Status != "discarded" || got.Attempts != w.Attempts || got.ProcessedAt != nil {
			t.Errorf("%s: %s, %d attempts", c.name, got.Status, got.Attempts)
		}
		if got.Error == nil || *got.Error != c.error {
			t.Errorf("%s: error %v", c.name, got.Error)
		}
		r.discardedBecause(got, "max_attempts")
		if diff := cmp.Diff([]any{1.0}, got.Metadata["kept"]); diff != "" {
			t.Errorf("%s: metadata lost what it held: %v", c.name, got.Metadata)
		}
	}
	r.sound()
}

// discardedBecause checks the three keys that a discard leaves in the metadata.
func (r *rail) discardedBecause(e event, reason string) {
	r.Helper()
	if e.Metadata["discardReason"] != reason || e.Metadata["finalAttempts"] != float64(e.Attempts) {
		r.Errorf("discarded with %v, want reason %s and %d attempts", e.Metadata, reason, e.Attempts)
	}
	r.recent(e, "discardedAt")
}

// recent checks that a metadata value is a text that reads as a time just past.
func (r *rail) recent(e event, key string) {
	r.Helper()
	text, _ := e.Metadata[key].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		r.Errorf("metadata.%s %v is no time: %v", key, e.Metadata[key], err)
		return
	}
	if age := value[time.Time](r, `select clock_timestamp()`).Sub(at); age < 0 || age > time.Minute {
		r.Errorf("metadata.%s lies %v back", key, age)
	}
}

// 1. Exhausted rows go first: those of other types, not due, or at rest stay; so does
// one that is locked by others.
func TestClaimExhaustedOnlyDue(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	stay := map[string]uuid.UUID{
		"other type":    r.insert(row{Agg: 1, Type: "b", Attempts: 9}),
		"not due":       r.insert(row{Agg: 2, Attempts: 9, Due: time.Hour}),
		"being handled": r.insert(row{Agg: 3, Attempts: 9, Status: "processing", Due: time.Hour}),
		"locked":        r.insert(row{Agg: 4, Attempts: 9}),
		"processed":     r.insert(row{Agg: 5, Attempts: 9, Status: "processed"}),
	}
	gone := r.insert(row{Agg: 6, Attempts: 9, Age: time.Second})
	before := map[string]event{}
	for name, id := range stay {
		before[name] = r.event(id)
	}
	other := r.session()
	other.begin("read committed")
	other.exec(`select from public.outbox_events where id = $1 for update`, stay["locked"])
	if got := r.claim("a"); len(got) != 0 {
		t.Errorf("handed out %v", ids(got))
	}
	other.commit()
	for name, id := range stay {
		if diff := cmp.Diff(before[name], r.event(id)); diff != "" {
			t.Errorf("%s changed:\n%s", name, diff)
		}
	}
	if got := r.event(gone).Status; got != "discarded" {
		t.Errorf("the exhausted one is %s", got)
	}
}

// 1. Exhausted rows go first: up to 100 a call, oldest first, wherever they are filed.
func TestClaimExhaustedHundred(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	old := make([]uuid.UUID, 130)
	for i := range old { // a third each: alone, queued behind the next, due soon
		w := row{Agg: i, Attempts: 9, Age: time.Duration(1000-i) * time.Second}
		switch i % 3 {
		case 1:
			w.Agg = 999
		case 2:
			w.Due = 50 * time.Millisecond
		}
		old[i] = r.insert(w)
	}
	r.exec(`update public.outbox_events set lane = 'queued' where aggregate_id = $1 and id <> $2`, agg(999), old[1])
	r.exec(`update public.outbox_events set waited = true where id = $1`, old[1])
	r.sound()
	for due := false; !due; {
		due = value[bool](r, `select max(available_at) < clock_timestamp() from public.outbox_events`)
	}
	for _, want := range []int{100, 130} {
		r.claim("a")
		got := column[uuid.UUID](r, `select id from public.outbox_events where status = 'discarded' order by created_at, id`)
		if diff := cmp.Diff(old[:want], got); diff != "" {
			t.Fatalf("discarded (-want +got):\n%s", diff)
		}
		r.sound()
	}
}

// 1. Exhausted rows go first: what waited behind one is handed out by the same call.
func TestClaimExhaustedUnblocks(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{Agg: 1, Age: 3e9, Attempts: 8})
	next := r.insert(row{Agg: 1, Age: 2e9})
	r.insert(row{Agg: 1, Age: 1e9})
	if diff := cmp.Diff([]uuid.UUID{next}, ids(r.claim("a"))); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	r.sound()
}

// 2. Candidates: claimed types, active, due, attempts below the limit.
func TestClaimCandidates(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	want := []uuid.UUID{
		r.insert(row{Agg: 1, Age: 9e9}),
		r.insert(row{Agg: 2, Age: 8e9, Status: "failed", Attempts: 3}),
		r.insert(row{Agg: 3, Age: 7e9, Status: "processing", Attempts: 1, Due: -1e9}),
		r.insert(row{Agg: 4, Age: 6e9, Attempts: 7}),
		r.insert(row{Agg: 5, Age: 5e9, Type: "b"}),
	}
	for i, w := range []row{
		{Type: "c"}, {Due: time.Hour}, {Status: "failed", Due: time.Hour}, {Status: "processing", Due: time.Hour},
		{Status: "processed"}, {Status: "discarded"}, {Attempts: 8}, {Type: "A"}, {Type: " a"},
	} {
		w.Agg = 100 + i
		r.insert(w)
	}
	if diff := cmp.Diff(want, ids(r.claim("a", "b"))); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	if again := r.claim("a", "b"); len(again) != 0 {
		t.Errorf("claimed %d twice", len(again))
	}
}

// 2. Candidates: the oldest first by (created_at, id), whatever lane and type they are
// in, and in what order they became due.
func TestClaimOldestFirst(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	var want []uuid.UUID
	for i := range 60 {
		at := time.Date(2001, 1, 1, 0, 0, i/3, 0, time.UTC) // three of each age: ids decide
		id := uuid.UUID{0: byte(200 - i/3), 15: byte(i)}
		due := time.Duration(60-i) * time.Millisecond * time.Duration(i%2) // half of them due later, the youngest first
		r.exec(`insert into public.outbox_events (id, created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
			values ($1::uuid, $2, clock_timestamp() + $3::interval, 'order', $1::uuid, $4, $1::uuid::text, '{}')`, id, at, due, string(rune('a'+i%4)))
		want = append(want, id)
	}
	for due := false; !due; {
		due = value[bool](r, `select max(available_at) < clock_timestamp() from public.outbox_events`)
	}
	slices.SortStableFunc(want, func(a, b uuid.UUID) int { return int(a[15])/3 - int(b[15])/3 })
	var got []uuid.UUID
	for range 6 {
		got = append(got, ids(r.events(`select * from public.outbox_claim_batch(array['a', 'b', 'c', 'd'], p_batch_size => 10)`))...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
}

// 2. Candidates: rows locked by others are skipped, not waited for.
func TestClaimSkipsLocked(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	locked, free := r.insert(row{Agg: 1, Age: 2e9}), r.insert(row{Agg: 2, Age: 1e9})
	other := r.session()
	other.begin("read committed")
	other.exec(`select from public.outbox_events where id = $1 for update`, locked)
	if diff := cmp.Diff([]uuid.UUID{free}, ids(r.claim("a"))); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	other.commit()
	if diff := cmp.Diff([]uuid.UUID{locked}, ids(r.claim("a"))); diff != "" {
		t.Errorf("after the lock (-want +got):\n%s", diff)
	}
}

// 4. Each chosen row: what changes, that nothing else does, and that the rows come as
// they then stand.
func TestClaimChosen(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	message := "earlier"
	for i := range 3 {
		r.insert(row{Agg: i, Age: time.Duration(9-i) * time.Second, Status: "failed", Attempts: i, Error: &message,
			Metadata: `{"mine": true, "claimToken": "old", "lastClaimedAt": "old"}`})
	}
	before := r.events(`select * from public.outbox_events order by created_at`)
	got := r.claim("a")
	if diff := cmp.Diff(r.events(`select * from public.outbox_events order by created_at`), got); diff != "" {
		t.Errorf("returned other than stored (-stored +returned):\n%s", diff)
	}
	seen := map[string]bool{}
	for i, e := range got {
		if token, err := uuid.Parse(e.token()); err != nil || token.String() != e.token() || seen[e.token()] {
			t.Errorf("claimToken %q is no fresh uuid: %v", e.token(), err)
		}
		seen[e.token()] = true
		r.recent(e, "lastClaimedAt")
		want := before[i]
		want.Status, want.Attempts, want.AvailableAt, want.Lane = "processing", i+1, e.AvailableAt, e.Lane
		want.Metadata = map[string]any{"mine": true, "claimToken": e.token(), "lastClaimedAt": e.Metadata["lastClaimedAt"]}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
	}
}

// A processing row whose lease ran out is due again and is claimed like any other.
func TestClaimLeaseRunOut(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id := r.insert(row{Agg: 1, Age: 2e9})
	r.insert(row{Agg: 1, Age: 1e9})
	first := r.claimOne("a")
	r.exec(`update public.outbox_events set available_at = clock_timestamp() where id = $1`, id)
	second := r.claimOne("a")
	if second.ID != id || second.Attempts != 2 || second.token() == first.token() {
		t.Errorf("claimed %s after %d attempts", second.ID, second.Attempts)
	}
	r.sound()
}

// 2. Candidates: a full batch of the oldest ones that are free, however many others hold.
func TestClaimFillsBesideLocked(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	all := make([]uuid.UUID, 60)
	for i := range all {
		all[i] = r.insert(row{Agg: i, Age: time.Duration(1000-i) * time.Second})
	}
	for _, c := range []struct{ locked, size int }{{1, 1}, {2, 1}, {7, 3}, {30, 10}, {25, 25}, {45, 20}} {
		other, claimer := r.session(), r.session()
		other.begin("read committed")
		other.exec(`select from public.outbox_events where id = any ($1) for update`, all[:c.locked])
		claimer.begin("read committed")
		got := claimer.events(`select * from public.outbox_claim_batch(array['a'], p_batch_size => $1)`, c.size)
		if diff := cmp.Diff(all[c.locked:min(len(all), c.locked+c.size)], ids(got)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
		claimer.exec(`rollback`)
		other.commit()
	}
}

// Arguments of outbox_claim_batch: types named twice, null and blank ones among them.
func TestClaimTypesNamedOddly(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id := r.insert(row{})
	for _, none := range [][]any{{nil}, {" "}, {nil, "", "b"}, {"a "}} {
		if got := r.events(`select * from public.outbox_claim_batch($1::text[])`, none); len(got) != 0 {
			t.Errorf("%q: claimed %v", none, ids(got))
		}
	}
	got := r.events(`select * from public.outbox_claim_batch($1::text[], $1::text[])`, []any{"a", nil, "a", " ", "a"})
	if diff := cmp.Diff([]uuid.UUID{id}, ids(got)); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
}

// 2. Candidates: rows that are blocked and that nobody has looked at yet are filed 500 a
// call, so that no call is long; what is free behind n of them comes after n/500 + 1
// calls at most, and then at once.
func TestClaimFilesAndGoesOn(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	const blocked = 1800
	r.insert(row{Agg: 1, Age: time.Hour, Due: time.Hour}) // a head that waits for its retry
	r.exec(`insert into public.outbox_events (created_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, lane)
		select clock_timestamp() - interval '1 minute', 'order', $1, 'a', i::text, '{}', 'ready' from generate_series(1, $2::integer) i`, agg(1), blocked)
	free := r.insert(row{Agg: 2})
	calls := 1
	for ; len(r.claim("a")) == 0; calls++ {
		if calls > blocked/500+1 {
			t.Fatalf("nothing came in %d calls", calls)
		}
	}
	r.sound()
	r.exec(`select public.outbox_release_unprocessed(array[id], array[metadata ->> 'claimToken']) from public.outbox_events where id = $1`, free)
	if got := r.claimOne("a"); got.ID != free {
		t.Errorf("then claimed %s", got.ID)
	}
}

// Point 1 comes before point 2: what is exhausted is discarded even where the batch is full of older events, and however
// it came to be expired.
func TestExhaustedBehindAFullBatch(t *testing.T) {
	t.Parallel()
	for name, expire := range map[string]func(*rail, int){
		"written by a producer": func(r *rail, attempts int) {
			r.insert(row{Key: "worn", Status: "processing", Attempts: attempts, Age: time.Hour, Due: -time.Minute})
		},
		"claimed, expired by hand": func(r *rail, attempts int) {
			r.insert(row{Key: "worn", Attempts: attempts - 1, Age: time.Hour})
			r.exec(`select public.outbox_claim_batch(array['a'], p_max_attempts => $1::integer)`, attempts)
			r.exec(`update public.outbox_events set available_at = clock_timestamp()`)
		},
		"claimed among many": func(r *rail, attempts int) {
			r.insert(row{Key: "worn", Attempts: attempts - 1, Age: time.Hour})
			r.exec(`select public.outbox_claim_events(array['a'], '{}', 100, 300, $1::integer, p_many => 1)`, attempts)
			r.exec(`update public.outbox_events set available_at = clock_timestamp()`)
		},
	} {
		for _, attempts := range []int{1, 2, 8, 20} {
			r := newRail(t)
			expire(r, attempts)
			r.insert(row{Agg: 1, Key: "older", Age: 2 * time.Hour})
			got := r.events(`select * from public.outbox_claim_batch(array['a'], p_batch_size => 1, p_max_attempts => $1::integer)`, attempts)
			if len(got) != 1 || got[0].IdempotencyKey != "older" {
				t.Errorf("%s, %d attempts: claimed %+v", name, attempts, got)
			}
			if status := value[string](r, `select status from public.outbox_events where idempotency_key = 'worn'`); status != "discarded" {
				t.Errorf("%s, %d attempts: %s, want discarded", name, attempts, status)
			}
		}
	}
}

// Up to 100, the oldest first, each counted once, where one attempt is all there is; events that have to run alone are no
// exception.
func TestExhaustedAfterOneAttempt(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for i := range 120 {
		r.insert(row{Agg: i, Key: fmt.Sprint(i), Status: []string{"failed", "processing", "processing"}[i%3], Attempts: 1 + i%2, Age: time.Hour - time.Duration(i)*time.Second, Due: -time.Minute})
	}
	r.exec(`update public.outbox_events set crashes = 3 where idempotency_key::integer % 10 = 1`)
	for i, want := range []string{"100 up to 99", "120 up to 119"} {
		older := r.insert(row{Agg: 200 + i, Age: 2 * time.Hour, Key: "-1" + fmt.Sprint(i)})
		if got := r.events(`select * from public.outbox_claim_batch(array['a'], p_batch_size => 1, p_max_attempts => 1)`); len(got) != 1 || got[0].ID != older {
			t.Errorf("claimed %+v", got)
		}
		if got := value[string](r, `select count(*) || ' up to ' || max(idempotency_key::integer) from public.outbox_events where status = 'discarded'`); got != want {
			t.Errorf("discarded %s, want %s", got, want)
		}
	}
}
