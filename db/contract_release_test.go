package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// outbox_release_unprocessed: status, attempt refunded (not below 0), nothing else; the
// delay default 0, null = 0, clamped to 0..3600.
func TestRelease(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for _, c := range []struct {
		argument       string
		seconds        float64
		attempts, left int
	}{
		{"", 0, 3, 2}, {", null", 0, 1, 0}, {", 0", 0, 0, 0}, {", -5", 0, 1, 0}, {", 30", 30, 20, 19}, {", 3600", 3600, 1, 0}, {", 3601", 3600, 1, 0},
	} {
		id := r.held(c.attempts)
		want := r.event(id)
		before := value[time.Time](r, `select clock_timestamp()`)
		if n := value[int](r, `select public.outbox_release_unprocessed(array[$1]::uuid[], array['t']`+c.argument+`)`, id); n != 1 {
			t.Errorf("%+v: released %d", c, n)
		}
		got := r.event(id)
		if wait := got.AvailableAt.Sub(before).Seconds(); wait < c.seconds || wait > c.seconds+5 {
			t.Errorf("%+v: available in %v s", c, wait)
		}
		want.Status, want.Attempts, want.AvailableAt, want.Lane = "pending", c.left, got.AvailableAt, got.Lane
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
		r.exec(`delete from public.outbox_events`)
	}
}

// outbox_release_unprocessed: each row under its paired token, and returns how many.
func TestReleasePairs(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	a, b, other := r.held(1), r.held(2), r.held(3)
	r.exec(`update public.outbox_events set metadata = '{"claimToken": "u"}' where id = $1`, b)
	for _, c := range []struct {
		ids    []uuid.UUID
		tokens []any
		want   int
	}{
		{nil, nil, 0},
		{[]uuid.UUID{a, b}, []any{"u", "t"}, 0},
		{[]uuid.UUID{a, b}, []any{nil, ""}, 0},
		{[]uuid.UUID{a, a, b, uuid.Nil}, []any{"t", "t", "u", "t"}, 2},
		{[]uuid.UUID{a, b}, []any{"t", "u"}, 0},
		{[]uuid.UUID{other, other}, []any{"x", "t"}, 1},
	} {
		ids, tokens := c.ids, c.tokens
		if ids == nil {
			ids, tokens = []uuid.UUID{}, []any{}
		}
		if got := value[int](r, `select public.outbox_release_unprocessed($1, $2::text[])`, ids, tokens); got != c.want {
			t.Errorf("%v %v: released %d, want %d", c.ids, c.tokens, got, c.want)
		}
	}
	r.sound()
}

// outbox_release_unprocessed: rows at rest or waiting are not touched.
func TestReleaseOnlyProcessing(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for _, status := range []string{"pending", "failed", "processed", "discarded"} {
		id := r.held(4)
		r.exec(`update public.outbox_events set status = $2 where id = $1`, id, status)
		before := r.event(id)
		if n := value[int](r, `select public.outbox_release_unprocessed(array[$1]::uuid[], array['t'])`, id); n != 0 {
			t.Errorf("%s: released %d", status, n)
		}
		if diff := cmp.Diff(before, r.event(id)); diff != "" {
			t.Errorf("%s: changed:\n%s", status, diff)
		}
	}
}

// Where ours must be better, 7: a lease can be extended, 1 to 3600 seconds from now,
// while the token holds the event, even after the lease has run out; the answer names
// the events still held.
func TestExtendLeases(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	a, late, other := r.held(1), r.held(2), r.held(3)
	r.exec(`update public.outbox_events set available_at = clock_timestamp() - interval '1 hour' where id = $1`, late)
	for argument, seconds := range map[string]float64{"": 300, ", null": 300, ", 0": 1, ", 10": 10, ", 4000": 3600} {
		before := value[time.Time](r, `select clock_timestamp()`)
		got := column[uuid.UUID](r, `select x from public.outbox_extend_leases(array[$1, $2, $3, gen_random_uuid()]::uuid[], array['t', 't', 'u', 't']`+argument+`) x order by x`, a, late, other)
		if diff := cmp.Diff([]uuid.UUID{a, late}, got); diff != "" {
			t.Errorf("%q: extended (-want +got):\n%s", argument, diff)
		}
		for _, id := range []uuid.UUID{a, late} {
			e := r.event(id)
			if wait := e.AvailableAt.Sub(before).Seconds(); wait < seconds || wait > seconds+5 || e.Status != "processing" {
				t.Errorf("%q: %s for %v s", argument, e.Status, wait)
			}
		}
	}
	r.sound()
}
