package db_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// outbox_mark_failed, outcome retry: the backoff formula
// d = min(cap, base * 2^min(max(attempts-1, 0), 16)), and from it (0.5 + random/2) * d.
func TestMarkFailedBackoff(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for _, c := range []struct {
		arguments string
		attempts  int
		d         float64
	}{
		{``, 0, 60}, {``, 1, 60}, {``, 2, 120}, {``, 3, 240}, {``, 4, 480}, {``, 6, 1920}, {``, 7, 3600},
		{`, p_base_delay_seconds => 5, p_max_delay_seconds => 86400, p_max_attempts => 20`, 1, 5},
		{`, p_base_delay_seconds => 5, p_max_delay_seconds => 86400, p_max_attempts => 20`, 10, 2560},
		{`, p_base_delay_seconds => 5, p_max_delay_seconds => 86400, p_max_attempts => 20`, 15, 81920},
		{`, p_base_delay_seconds => 5, p_max_delay_seconds => 86400, p_max_attempts => 20`, 19, 86400},
		// Clamps: base null = 60, to 5..3600; cap null = 3600, at least the base, at most 86400.
		{`, p_base_delay_seconds => null`, 1, 60}, {`, p_base_delay_seconds => 0`, 1, 5}, {`, p_base_delay_seconds => -9`, 2, 10},
		{`, p_base_delay_seconds => 4000`, 1, 3600}, {`, p_max_delay_seconds => null`, 7, 3600}, {`, p_max_delay_seconds => 0`, 7, 60},
		{`, p_base_delay_seconds => 100, p_max_delay_seconds => 90`, 3, 100}, {`, p_max_delay_seconds => 90`, 3, 90},
		{`, p_base_delay_seconds => 3600, p_max_delay_seconds => 100000`, 7, 86400},
	} {
		var factors []float64
		for range 12 {
			id := r.held(c.attempts)
			before := value[time.Time](r, `select clock_timestamp()`)
			if got := value[string](r, `select public.outbox_mark_failed($1, 't', 'boom'`+c.arguments+`)`, id); got != "failed" {
				t.Fatalf("%+v: %s", c, got)
			}
			wait := r.event(id).AvailableAt.Sub(before).Seconds()
			factors = append(factors, wait/c.d)
			if slack := 5.0; wait < 0.5*c.d || wait > c.d+slack {
				t.Errorf("%+v: waits %v s, want between %v and %v", c, wait, 0.5*c.d, c.d)
			}
		}
		if spread(factors) < 0.01 {
			t.Errorf("%+v: always waits %v of it; it has to be random", c, factors[0])
		}
	}
}

func spread(values []float64) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	return high - low
}

// outbox_mark_failed, outcome retry: what changes below the limit of attempts.
func TestMarkFailedRetry(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for name, e := range errorTexts {
		id := r.held(2)
		want := r.event(id)
		if got := value[string](r, `select public.outbox_mark_failed($1, 't', `+e.argument+`, 'retry')`, id); got != "failed" {
			t.Errorf("%s: %s", name, got)
		}
		got := r.event(id)
		want.Status, want.Error, want.AvailableAt, want.Lane = "failed", e.stored, got.AvailableAt, text("timed")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	r.sound()
}

// errorTexts: p_error stored cut to 2000 characters, null allowed.
var errorTexts = map[string]struct {
	argument string
	stored   *string
}{
	"a text":    {`'boom'`, text("boom")},
	"empty":     {`''`, text("")},
	"null":      {`null`, nil},
	"2000":      {`repeat('e', 2000)`, text(strings.Repeat("e", 2000))},
	"2001":      {`repeat('e', 2001)`, text(strings.Repeat("e", 2000))},
	"in signs":  {`repeat('ü', 2500)`, text(strings.Repeat("ü", 2000))},
	"very long": {`repeat('x', 1000000)`, text(strings.Repeat("x", 2000))},
}

func text(s string) *string { return &s }

// outbox_mark_failed: discard, and retry with attempts >= max, become discarded.
func TestMarkFailedDiscards(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for _, c := range []struct {
		attempts  int
		arguments string
		reason    string // empty: not discarded
	}{
		{1, `, 'discard'`, "permanent_error"}, {20, `, 'discard'`, "permanent_error"}, {0, `, 'discard'`, "permanent_error"},
		{7, ``, ""}, {8, ``, "max_attempts"}, {9, ``, "max_attempts"}, {7, `, p_max_attempts => null`, ""}, {8, `, p_max_attempts => null`, "max_attempts"},
		{2, `, p_max_attempts => 3`, ""}, {3, `, p_max_attempts => 3`, "max_attempts"},
		{0, `, p_max_attempts => 0`, ""}, {1, `, p_max_attempts => 0`, "max_attempts"}, {1, `, p_max_attempts => -5`, "max_attempts"},
		{19, `, p_max_attempts => 100`, ""}, {20, `, p_max_attempts => 100`, "max_attempts"},
		{20, `, 'snooze'`, ""},
	} {
		id := r.held(c.attempts)
		want := r.event(id)
		outcome := value[string](r, `select public.outbox_mark_failed($1, 't', 'boom'`+c.arguments+`)`, id)
		got := r.event(id)
		if (outcome == "discarded") != (c.reason != "") {
			t.Errorf("%+v: %s", c, outcome)
		}
		if c.reason == "" {
			continue
		}
		r.discardedBecause(got, c.reason)
		want.Status, want.Error, want.Lane = "discarded", text("boom"), nil
		for key := range map[string]bool{"discardReason": true, "discardedAt": true, "finalAttempts": true} {
			want.Metadata[key] = got.Metadata[key]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
	}
	r.sound()
}

// outbox_mark_failed, outcome snooze: the attempt is refunded, the time, the metadata;
// p_snooze_seconds default 300, clamped to 60..3600.
func TestMarkFailedSnooze(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for _, c := range []struct {
		argument string
		seconds  float64
		attempts int
		left     int
	}{{"", 300, 3, 2}, {"null", 300, 1, 0}, {"0", 60, 0, 0}, {"-1", 60, 8, 7}, {"59", 60, 20, 19}, {"60", 60, 1, 0}, {"900", 900, 1, 0}, {"3601", 3600, 1, 0}} {
		argument := ""
		if c.argument != "" {
			argument = ", p_snooze_seconds => " + c.argument
		}
		id := r.held(c.attempts)
		want := r.event(id)
		if got := value[string](r, `select public.outbox_mark_failed($1, 't', 'not now', 'snooze'`+argument+`)`, id); got != "snoozed" {
			t.Fatalf("%+v: %s", c, got)
		}
		got := r.event(id)
		wait := value[float64](r, `select extract(epoch from available_at - (metadata ->> 'lastSnoozedAt')::timestamptz)::float8 from public.outbox_events where id = $1`, id)
		if math.Abs(wait-c.seconds) > 0.001 {
			t.Errorf("%+v: waits %v s", c, wait)
		}
		r.recent(got, "lastSnoozedAt")
		want.Status, want.Error, want.Attempts, want.AvailableAt, want.Lane = "failed", text("not now"), c.left, got.AvailableAt, text("timed")
		want.Metadata["snoozeCount"], want.Metadata["lastSnoozedAt"] = 1.0, got.Metadata["lastSnoozedAt"]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
	}
	r.sound()
}

// outbox_mark_failed, outcome snooze: snoozeCount counts up; where ours must be better,
// 4: one that is no number counts as 0.
func TestMarkFailedSnoozeCount(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for before, want := range map[string]float64{
		`4`: 5, `0`: 1, `2.5`: 3.5, `"4"`: 1, `null`: 1, `true`: 1, `[]`: 1, `{}`: 1, `"many"`: 1,
	} {
		id := r.held(1)
		r.exec(`update public.outbox_events set metadata = metadata || jsonb_build_object('snoozeCount', $2::text::jsonb) where id = $1`, id, before)
		if got := value[string](r, `select public.outbox_mark_failed($1, 't', null, 'snooze')`, id); got != "snoozed" {
			t.Errorf("snoozeCount %s: %s", before, got)
		}
		if got := r.event(id).Metadata["snoozeCount"]; got != want {
			t.Errorf("snoozeCount %s became %v, want %v", before, got, want)
		}
	}
}

// outbox_mark_failed: missed, if the row is not processing under that token, whatever
// the outcome; and the outcome is checked first.
func TestMarkFailedMissed(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	for _, change := range []string{`status = 'pending'`, `status = 'failed'`, `status = 'processed'`, `status = 'discarded'`,
		`metadata = '{}'`, `metadata = '{"claimToken": "T"}'`, `metadata = '{"claimToken": null}'`} {
		id := r.held(3)
		r.exec(`update public.outbox_events set `+change+` where id = $1`, id)
		before := r.event(id)
		for _, outcome := range []string{"retry", "discard", "snooze"} {
			if got := value[string](r, `select public.outbox_mark_failed($1, 't', 'e', $2)`, id, outcome); got != "missed" {
				t.Errorf("%s, %s: %s", change, outcome, got)
			}
		}
		if refused := r.fails(`select public.outbox_mark_failed($1, 't', 'e', 'none')`, id); refused.Code != "22023" {
			t.Errorf("%s: %v", change, refused)
		}
		if diff := cmp.Diff(before, r.event(id)); diff != "" {
			t.Errorf("%s: changed:\n%s", change, diff)
		}
	}
	for _, call := range []string{`gen_random_uuid(), 't'`, `null, 't'`, `null, null`} {
		if got := value[string](r, `select public.outbox_mark_failed(`+call+`, 'e')`); got != "missed" {
			t.Errorf("%s: %s", call, got)
		}
	}
}

// Where ours must be better, 7: many unsuccessful ends in one statement, an answer per
// row, in the order asked; reasons and delays per row.
func TestMarkFailedMany(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	a, b, c, d, e := r.held(1), r.held(2), r.held(3), r.held(8), r.held(5)
	got := column[string](r, `select m.event_id || ' ' || m.outcome from public.outbox_mark_failed_many(
		array[$1, $2, $3, $4, $5, gen_random_uuid(), null]::uuid[], array['t', 't', 't', 't', 'x', 't', null],
		array['1', '2', null, '4', '5', '6', '7'], array['retry', 'discard', 'snooze', 'retry', 'retry', 'retry', 'retry'],
		p_reasons => array['', 'undecodable', null, null, null, null, null], p_delays => array[7, null, 90, null, 1, 1, 1]) m where m.event_id = any (array[$1, $2, $3, $4, $5]::uuid[])`, a, b, c, d, e)
	want := []string{fmt.Sprint(a, " failed"), fmt.Sprint(b, " discarded"), fmt.Sprint(c, " snoozed"), fmt.Sprint(d, " discarded"), fmt.Sprint(e, " missed")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	r.discardedBecause(r.event(b), "undecodable")
	r.discardedBecause(r.event(d), "max_attempts")
	for id, seconds := range map[any]float64{a: 7, c: 90} {
		wait := value[float64](r, `select extract(epoch from available_at - clock_timestamp())::float8 from public.outbox_events where id = $1`, id)
		if wait > seconds || wait < seconds-5 {
			t.Errorf("waits %v s, want %v", wait, seconds)
		}
	}
	r.sound()
}
