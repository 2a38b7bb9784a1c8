package outboxtest

import (
	"strings"

	"github.com/google/uuid"
)

var failRules = []rule{
	{"a failure is tried again", failureAgain},
	{"the backoff doubles from its base to its cap", backoff},
	{"a failure with no attempt left is discarded", failureLast},
	{"a permanent failure is discarded", failureForGood},
	{"a snooze counts no attempt", snooze},
	{"a snooze lasts 60 to 3600 seconds, 300 by default", snoozeDelay},
	{"a snooze count that is no number counts as 0", snoozeCount},
	{"an error is cut to 2000 characters", longError},
	{"a failure under another token is missed", failureByStranger},
	{"an unknown outcome is refused", unknownOutcome},
}

// fail calls outbox_mark_failed with further arguments in SQL.
func (s *store) fail(e row, arguments string) string {
	return value[string](s, `select public.outbox_mark_failed($1::uuid, $2::text, 'oh'`+arguments+`)`, e.ID, e.token())
}

func failureAgain(s *store) {
	e := s.held(seed{Attempts: 2})
	want(s, "answer", "failed", s.fail(e, ""))
	after := s.row(e.ID)
	want(s, "status", "failed", after.Status)
	want(s, "attempts", 3, after.Attempts)
	want(s, "error", "oh", after.text())
	s.within("backoff", 120, 240, after.DueIn)
}

func backoff(s *store) {
	for _, c := range []struct {
		attempts    int
		arguments   string
		least, most float64
	}{
		{1, "", 30, 60}, {2, "", 60, 120}, {7, "", 1800, 3600},
		{1, ", p_base_delay_seconds => 1", 2.5, 5}, {1, ", p_base_delay_seconds => 99999", 1800, 3600},
		{1, ", p_base_delay_seconds => 3600, p_max_delay_seconds => 10", 1800, 3600},
		{19, ", p_max_attempts => 20, p_max_delay_seconds => 9999999", 43200, 86400},
		{1, ", p_base_delay_seconds => null, p_max_delay_seconds => null", 30, 60},
	} {
		s.exec(`delete from public.outbox_events`)
		s.plant(seed{Attempts: c.attempts - 1})
		got := s.claim("array['a'], p_max_attempts => 20")
		if len(got) != 1 {
			s.fatalf("a claim brings %d events, want 1", len(got))
		}
		want(s, "answer", "failed", s.fail(got[0], c.arguments))
		s.within("backoff"+c.arguments, c.least, c.most, s.row(got[0].ID).DueIn)
	}
}

func failureLast(s *store) {
	e := s.held(seed{Attempts: 2})
	want(s, "answer", "discarded", s.fail(e, ", p_max_attempts => 3"))
	s.discarded(e, "max_attempts")
}

func failureForGood(s *store) {
	e := s.held(seed{Attempts: 2})
	want(s, "answer", "discarded", s.fail(e, ", 'discard'"))
	s.discarded(e, "permanent_error")
}

func (s *store) discarded(e row, reason string) {
	after := s.row(e.ID)
	want(s, "status", "discarded", after.Status)
	want(s, "error", "oh", after.text())
	want(s, "discardReason", any(reason), after.meta("discardReason"))
	want(s, "finalAttempts", any(3.0), after.meta("finalAttempts"))
	s.recent("discardedAt", after)
}

func snooze(s *store) {
	e := s.held(seed{Attempts: 2, Metadata: `{"snoozeCount": 4}`})
	want(s, "answer", "snoozed", s.fail(e, ", 'snooze'"))
	after := s.row(e.ID)
	want(s, "status", "failed", after.Status)
	want(s, "attempts", 2, after.Attempts)
	want(s, "snoozeCount", any(5.0), after.meta("snoozeCount"))
	s.recent("lastSnoozedAt", after)
}

func snoozeDelay(s *store) {
	for argument, due := range map[string]float64{"": 300, ", p_snooze_seconds => null": 300, ", p_snooze_seconds => 1": 60, ", p_snooze_seconds => 9999": 3600} {
		s.exec(`delete from public.outbox_events`)
		e := s.held(seed{})
		want(s, "answer", "snoozed", s.fail(e, ", 'snooze'"+argument))
		s.within("due after a snooze"+argument, due, due, s.row(e.ID).DueIn)
	}
}

func snoozeCount(s *store) {
	e := s.held(seed{Metadata: `{"snoozeCount": "many"}`})
	want(s, "answer", "snoozed", s.fail(e, ", 'snooze'"))
	want(s, "snoozeCount", any(1.0), s.row(e.ID).meta("snoozeCount"))
}

func longError(s *store) {
	for _, text := range []*string{nil, ptr(strings.Repeat("ü", 3000))} {
		s.exec(`delete from public.outbox_events`)
		e := s.held(seed{})
		want(s, "answer", "failed", value[string](s, `select public.outbox_mark_failed($1::uuid, $2::text, $3::text)`, e.ID, e.token(), text))
		stored := "null"
		if text != nil {
			stored = strings.Repeat("ü", 2000)
		}
		want(s, "error", stored, s.row(e.ID).text())
	}
}

func ptr[T any](v T) *T { return &v }

func failureByStranger(s *store) {
	e := s.held(seed{})
	for _, outcome := range []string{"retry", "discard", "snooze"} {
		want(s, outcome+" under another token", "missed",
			value[string](s, `select public.outbox_mark_failed($1::uuid, $2::text, 'oh', $3::text)`, e.ID, uuid.NewString(), outcome))
	}
	after := s.row(e.ID)
	want(s, "status", "processing", after.Status)
	want(s, "error", "null", after.text())
}

func unknownOutcome(s *store) {
	e := s.held(seed{})
	for _, outcome := range []string{"'failed'", "''", "null"} {
		s.refused("22023", "outbox_mark_failed_invalid_outcome",
			`select public.outbox_mark_failed($1::uuid, $2::text, 'oh', `+outcome+`)`, e.ID, e.token())
		s.refused("22023", "outbox_mark_failed_invalid_outcome",
			`select public.outbox_mark_failed(gen_random_uuid(), 'x', 'oh', `+outcome+`)`)
	}
	want(s, "status", "processing", s.row(e.ID).Status)
}
