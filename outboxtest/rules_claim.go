package outboxtest

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

var claimRules = []rule{
	{"a claim names event types", claimNamesTypes},
	{"a claim brings 1 to 100 events, 25 by default", claimSize},
	{"a lease lasts 300 to 3600 seconds, 300 by default", claimLease},
	{"attempts are limited to 1 to 20, 8 by default", claimLimit},
	{"exhausted events are discarded by the claim", exhausted},
	{"exhausted events of other types or that are not due stay", exhaustedElsewhere},
	{"a claimed event shows its claim", claimShows},
	{"the oldest come first", oldestFirst},
	{"only what is due and active comes", onlyDue},
	{"a lease that ran out is claimed again", leaseRanOut},
	{"a lease that lasts is respected", leaseLasts},
	{"rows locked by others are passed by", lockedRows},
}

func claimNamesTypes(s *store) {
	for _, types := range []string{"null", "'{}'"} {
		s.refused("22023", "outbox_claim_allowlist_required", `select public.outbox_claim_batch(`+types+`)`)
	}
}

func claimSize(s *store) {
	for i := range 101 {
		s.plant(seed{Agg: byte(i)})
	}
	for argument, size := range map[string]int{"": 25, ", p_batch_size => null": 25, ", p_batch_size => 3": 3,
		", p_batch_size => 0": 1, ", p_batch_size => -1": 1, ", p_batch_size => 1000": 100} {
		got := s.claim("array['a']" + argument)
		want(s, "events of a claim"+argument, size, len(got))
		for _, e := range got {
			want(s, "given back", 1, s.release(e.ID, e.token(), 0))
		}
	}
}

func claimLease(s *store) {
	e := s.plant(seed{})
	for argument, lease := range map[string]float64{"": 300, ", p_visibility_seconds => null": 300, ", p_visibility_seconds => 1": 300,
		", p_visibility_seconds => 900": 900, ", p_visibility_seconds => 9999": 3600} {
		got := s.claim("array['a']" + argument)
		if len(got) != 1 {
			s.fatalf("a claim%s brings %d events, want 1", argument, len(got))
		}
		s.within("lease of a claim"+argument, lease, lease, got[0].DueIn)
		want(s, "given back", 1, s.release(e, got[0].token(), 0))
	}
}

func claimLimit(s *store) {
	for argument, limit := range map[string]int{"": 8, ", p_max_attempts => null": 8, ", p_max_attempts => 0": 1,
		", p_max_attempts => 3": 3, ", p_max_attempts => 99": 20} {
		s.exec(`delete from public.outbox_events`)
		below, spent := s.plant(seed{Agg: 1, Attempts: limit - 1}), s.plant(seed{Agg: 2, Attempts: limit})
		s.claimed("array['a']"+argument, below)
		want(s, "status of a spent event after a claim"+argument, "discarded", s.row(spent).Status)
	}
}

func exhausted(s *store) {
	long := strings.Repeat("ü", 1990)
	for _, old := range []*string{nil, &long} {
		for _, status := range []string{"pending", "failed", "processing"} {
			id := s.plant(seed{Status: status, Attempts: 9, Error: old, Metadata: `{"kept": 1}`})
			s.claimed("array['a']")
			text := " | max_attempts_exhausted_at_claim"
			if old != nil {
				text = (*old + text[:10])
			}
			e := s.row(id)
			want(s, status+" becomes", "discarded", e.Status)
			want(s, "error", text, e.text())
			want(s, "discardReason", any("max_attempts"), e.meta("discardReason"))
			want(s, "finalAttempts", any(9.0), e.meta("finalAttempts"))
			want(s, "what the metadata held", any(1.0), e.meta("kept"))
			s.recent("discardedAt", e)
		}
	}
}

// recent expects a metadata entry that reads as a time just past.
func (s *store) recent(key string, e row) {
	text, _ := e.meta(key).(string)
	if at, err := time.Parse(time.RFC3339Nano, text); err != nil {
		s.errorf("%s is %v, no time", key, e.meta(key))
	} else {
		s.within("age of "+key, 0, 0, value[float64](s, `select date_part('epoch', clock_timestamp() - $1::timestamptz)`, at))
	}
}

func exhaustedElsewhere(s *store) {
	ids := []uuid.UUID{s.plant(seed{Type: "b", Agg: 1, Attempts: 9}), s.plant(seed{Agg: 2, Attempts: 9, Due: time.Hour}),
		s.plant(seed{Agg: 3, Attempts: 9, Status: "processing", Due: time.Hour}), s.plant(seed{Agg: 4, Attempts: 9, Status: "processed"})}
	s.claimed("array['a']")
	for i, id := range ids {
		if e := s.row(id); e.Status == "discarded" {
			s.errorf("event %d was discarded", i+1)
		}
	}
}

func claimShows(s *store) {
	e := s.held(seed{Attempts: 2, Metadata: `{"kept": 1}`})
	want(s, "status", "processing", e.Status)
	want(s, "attempts", 3, e.Attempts)
	want(s, "what the metadata held", any(1.0), e.meta("kept"))
	if _, err := uuid.Parse(e.token()); err != nil {
		s.errorf("claimToken %q is no uuid", e.token())
	}
	s.recent("lastClaimedAt", e)
	want(s, "token in the table", e.token(), s.row(e.ID).token())
}

func oldestFirst(s *store) {
	s.plant(seed{Agg: 1, Age: time.Minute})
	oldest := s.plant(seed{Agg: 2, Age: time.Hour, Due: -time.Second})
	second := s.plant(seed{Agg: 3, Age: 2 * time.Minute, Status: "failed"})
	s.claimed("array['a'], p_batch_size => 2", oldest, second)
}

func onlyDue(s *store) {
	s.plant(seed{Agg: 1, Due: time.Hour})
	s.plant(seed{Agg: 2, Status: "failed", Due: time.Hour})
	s.plant(seed{Agg: 3, Status: "processed"})
	s.plant(seed{Agg: 4, Status: "discarded"})
	s.plant(seed{Agg: 5, Type: "b"})
	due, failed := s.plant(seed{Agg: 6}), s.plant(seed{Agg: 7, Status: "failed"})
	s.claimed("array['a']", due, failed)
}

func leaseRanOut(s *store) {
	first := s.held(seed{})
	s.exec(`update public.outbox_events set available_at = clock_timestamp() - interval '1 second'`)
	again := s.claim("array['a']")
	if len(again) != 1 {
		s.fatalf("a claim brings %d events, want 1", len(again))
	}
	want(s, "attempts", 2, again[0].Attempts)
	if again[0].token() == first.token() {
		s.errorf("the second claim has the token of the first")
	}
}

func leaseLasts(s *store) {
	s.held(seed{})
	s.claimed("array['a']")
}

func lockedRows(s *store) {
	locked, free := s.plant(seed{Agg: 1}), s.plant(seed{Agg: 2})
	tx, err := s.pool.Begin(s.ctx)
	if err != nil {
		s.fatalf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(s.ctx) }()
	if _, err := tx.Exec(s.ctx, `select from public.outbox_events where id = $1::uuid for update`, locked); err != nil {
		s.fatalf("lock: %w", err)
	}
	s.claimed("array['a']", free)
}
