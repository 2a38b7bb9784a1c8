package outbox

import (
	"math"
	"testing"

	"github.com/openlup/pgrail/internal/pgtest"
)

// Anyone may have written into an event's metadata: a count that is none reads as 0.
func TestSnoozesAreReadFromMetadata(t *testing.T) {
	t.Parallel()
	store := newStore(pgtest.New(t).Pool, Policy{MaxAttempts: 20})
	for text, want := range map[string]int{`{}`: 0, `7`: 7, `-3`: 0, `"7"`: 0, `null`: 0, `[1]`: 0, `1e300`: math.MaxInt32, `2.5`: 3} {
		metadata := `{"snoozeCount": ` + text + `}`
		if text == `{}` {
			metadata = text
		}
		if _, err := store.pool.Exec(t.Context(), `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, metadata)
			values ('order', gen_random_uuid(), $1, $1, '{}', $2)`, "a "+text, metadata); err != nil {
			t.Fatal(err)
		}
		events, err := store.claim(t.Context(), ask{types: []string{"a " + text}, limit: 1}, nil, 300e9)
		if err != nil || len(events) != 1 || events[0].Snoozes != want {
			t.Errorf("%s: %+v, %v, want %d", text, events, err, want)
		}
	}
}
