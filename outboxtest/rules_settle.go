package outboxtest

import "github.com/google/uuid"

var settleRules = []rule{
	{"processed under its token", processedByToken},
	{"not processed under another token", processedByStranger},
	{"processed merges metadata", processedMerges},
	{"released under its token", releasedByToken},
	{"not released under another token", releasedByStranger},
	{"a release is delayed by 0 to 3600 seconds", releaseDelay},
	{"a release pairs its arrays", releasePairs},
}

func (s *store) processed(id uuid.UUID, token string) bool {
	return value[bool](s, `select public.outbox_mark_processed($1::uuid, $2::text)`, id, token)
}

func (s *store) release(id uuid.UUID, token string, delay int) int {
	return value[int](s, `select public.outbox_release_unprocessed(array[$1::uuid], array[$2::text], $3::integer)`, id, token, delay)
}

func processedByToken(s *store) {
	failed := "oh"
	e := s.held(seed{Status: "failed", Error: &failed})
	want(s, "acknowledged", true, s.processed(e.ID, e.token()))
	after := s.row(e.ID)
	want(s, "status", "processed", after.Status)
	want(s, "error", "null", after.text())
	want(s, "processed_at is set", true, after.ProcessedAt != nil)
}

func processedByStranger(s *store) {
	e := s.held(seed{})
	for _, token := range []string{uuid.NewString(), ""} {
		want(s, "acknowledged under another token", false, s.processed(e.ID, token))
	}
	want(s, "acknowledged without an event", false, s.processed(uuid.New(), e.token()))
	want(s, "status", "processing", s.row(e.ID).Status)
	want(s, "released", 1, s.release(e.ID, e.token(), 0))
	want(s, "acknowledged after its release", false, s.processed(e.ID, e.token()))
}

func processedMerges(s *store) {
	for _, metadata := range []string{`'{"kept": 2, "new": 3}'`, "null"} {
		s.exec(`delete from public.outbox_events`)
		e := s.held(seed{Metadata: `{"kept": 1}`})
		want(s, "acknowledged", true, value[bool](s, `select public.outbox_mark_processed($1::uuid, $2::text, `+metadata+`)`, e.ID, e.token()))
		after := s.row(e.ID)
		if metadata == "null" {
			want(s, "what the metadata held", any(1.0), after.meta("kept"))
			continue
		}
		want(s, "entry that was replaced", any(2.0), after.meta("kept"))
		want(s, "entry that is new", any(3.0), after.meta("new"))
	}
}

func releasedByToken(s *store) {
	e := s.held(seed{Attempts: 4})
	want(s, "released", 1, s.release(e.ID, e.token(), 0))
	after := s.row(e.ID)
	want(s, "status", "pending", after.Status)
	want(s, "attempts", 4, after.Attempts)
	s.within("due", 0, 0, after.DueIn)
	s.claimed("array['a']", e.ID)
}

func releasedByStranger(s *store) {
	e := s.held(seed{})
	want(s, "released under another token", 0, s.release(e.ID, uuid.NewString(), 0))
	want(s, "status", "processing", s.row(e.ID).Status)
}

func releaseDelay(s *store) {
	for delay, due := range map[string]float64{"null": 0, "-5": 0, "60": 60, "9999": 3600} {
		s.exec(`delete from public.outbox_events`)
		e := s.held(seed{})
		want(s, "released", 1, value[int](s, `select public.outbox_release_unprocessed(array[$1::uuid], array[$2::text], `+delay+`)`, e.ID, e.token()))
		s.within("due after a release by "+delay, due, due, s.row(e.ID).DueIn)
	}
}

func releasePairs(s *store) {
	for _, arguments := range []string{"null, array['x']", "array[gen_random_uuid()], null", "array[gen_random_uuid()], '{}'"} {
		s.refused("22023", "outbox_release_invalid_input", `select public.outbox_release_unprocessed(`+arguments+`)`)
	}
	a, b := s.plant(seed{Agg: 1}), s.plant(seed{Agg: 2})
	tokens := map[uuid.UUID]string{}
	for _, e := range s.claim("array['a']") {
		tokens[e.ID] = e.token()
	}
	const both = `select public.outbox_release_unprocessed(array[$1::uuid, $2::uuid], array[$3::text, $4::text])`
	want(s, "released under each other's tokens", 0, value[int](s, both, a, b, tokens[b], tokens[a]))
	want(s, "released", 2, value[int](s, both, a, b, tokens[a], tokens[b]))
}
