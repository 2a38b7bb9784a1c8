package outbox

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// D9: while looks from the beginning are slow, most claims begin where the last one found its events.
func TestD9_Horizon(t *testing.T) {
	start, middle := time.Now(), uuid.New()
	full := []Claimed{{}, {Envelope: Envelope{ID: middle}}, {}}
	for name, c := range map[string]struct {
		ask    ask
		events []Claimed
		took   time.Duration
		after  time.Duration
		next   ask
		bound  bool
	}{
		"a quick look":            {ask{limit: 3}, full, slowLook - 1, 0, ask{limit: 3}, false},
		"a slow look":             {ask{limit: 3}, full, slowLook, 0, ask{limit: 3}, true},
		"a slow look, long ago":   {ask{limit: 3}, full, slowLook, lookShare*slowLook + 1, ask{limit: 3}, false},
		"a slow look, short":      {ask{limit: 4}, full, slowLook, 0, ask{limit: 3}, false},
		"a trial after it":        {ask{limit: 3}, full, slowLook, 0, ask{limit: 3, trial: true}, false},
		"a suspect after it":      {ask{limit: 3}, full, slowLook, 0, ask{limit: 3, suspects: true}, false},
		"a slow trial":            {ask{limit: 3, trial: true}, full, slowLook, 0, ask{limit: 3}, false},
		"a slow look that failed": {ask{limit: 3}, nil, time.Minute, 0, ask{limit: 3}, false},
	} {
		var h horizon
		h.note(c.ask, c.events, start, c.took)
		since := h.since(c.next, start.Add(c.after))
		if got := since != nil; got != c.bound || got && *since != middle {
			t.Errorf("%s: the next claim begins at %v, want a bound: %v", name, since, c.bound)
		}
	}
}

// A claim from further on says nothing of what a look from the beginning costs.
func TestD9_HorizonKeepsTheCostOfALook(t *testing.T) {
	start := time.Now()
	var h horizon
	h.note(ask{limit: 1}, []Claimed{{}}, start, time.Second)
	bounded := ask{limit: 1, since: h.since(ask{limit: 1}, start)}
	h.note(bounded, []Claimed{{}}, start, time.Millisecond)
	if bounded.since == nil || h.since(ask{limit: 1}, start.Add(lookShare*time.Second)) == nil {
		t.Error("a quick claim from further on ended the economy")
	}
}
