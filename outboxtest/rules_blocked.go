package outboxtest

import (
	"time"

	"github.com/google/uuid"
)

var blockedRules = []rule{
	{"an older event of a claimed type blocks", blocks("array['a', 'b']", "", seed{Type: "b", Due: time.Hour}, true)},
	{"an older event of the own type blocks", blocks("array['a']", "", seed{Status: "failed", Due: time.Hour}, true)},
	{"an older event in flight blocks", blocks("array['a']", "", seed{Status: "processing", Due: time.Hour}, true)},
	{"an older event of a claimed type blocks even if dormant", blocks("array['a', 'b']", "b", seed{Type: "b", Due: time.Hour}, true)},
	{"an older event of a known type does not block", blocks("array['a'], array['b']", "", seed{Type: "b"}, false)},
	{"an older event of an unknown type blocks", blocks("array['a'], array['c']", "", seed{Type: "b"}, true)},
	{"a known type that is claimed too blocks", blocks("array['a', 'b'], array['b']", "", seed{Type: "b", Due: time.Hour}, true)},
	{"an older event of an unknown dormant type does not block", blocks("array['a']", "b", seed{Type: "b"}, false)},
	{"null and blank entries of the arrays mean nothing", blocks("array['a', null, ' '], array[null, '', 'b']", "", seed{Type: "b"}, false)},
	{"no list of known types is an empty one", blocks("array['a'], null", "", seed{Type: "b"}, true)},
	{"a processed event does not block", blocks("array['a']", "", seed{Status: "processed"}, false)},
	{"a discarded event does not block", blocks("array['a']", "", seed{Status: "discarded"}, false)},
	{"an event of another aggregate does not block", blocks("array['a']", "", seed{Type: "b", Agg: 2}, false)},
	{"a younger event does not block", blocks("array['a']", "", seed{Type: "b", Age: -time.Hour}, false)},
	{"events of equal age are ordered by id", equalAge},
	{"what was blocked comes when its way is free", wayIsFree},
}

// blocks makes a rule about an older event of the same aggregate, in front of one of type a that is due.
func blocks(arguments, dormant string, older seed, blocks bool) func(*store) {
	return func(s *store) {
		if dormant != "" {
			s.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ($1::text, 'team', 'why')`, dormant)
		}
		if older.Age == 0 {
			older.Age = time.Hour
		}
		if older.Agg == 0 {
			older.Agg = 1
		}
		s.plant(older)
		id := s.plant(seed{Agg: 1})
		if blocks {
			s.claimed(arguments)
			return
		}
		s.claimed(arguments, id)
	}
}

func equalAge(s *store) {
	high, low := uuid.UUID{15: 2}, uuid.UUID{15: 1}
	for _, id := range []uuid.UUID{high, low} {
		s.exec(`insert into public.outbox_events (id, created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
			values ($1::uuid, '2020-01-01Z', '2020-01-01Z', 'order', $2::uuid, 'a', $3::text, '{}')`, id, uuid.UUID{1}, id.String())
	}
	s.claimed("array['a']", low)
}

func wayIsFree(s *store) {
	s.plant(seed{Agg: 1, Age: time.Hour})
	second := s.plant(seed{Agg: 1})
	first := s.claim("array['a']")
	if len(first) != 1 {
		s.fatalf("a claim brings %d events of one aggregate, want 1", len(first))
	}
	s.claimed("array['a']")
	want(s, "acknowledged", true, s.processed(first[0].ID, first[0].token()))
	s.claimed("array['a']", second)
}
