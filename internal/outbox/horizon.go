package outbox

import (
	"time"

	"github.com/google/uuid"
)

// When a look from the beginning of the queue counts as slow, and what part of the time may go into slow ones.
const (
	slowLook  = 50 * time.Millisecond
	lookShare = 20
)

// horizon bounds what a claim costs while somebody holds a snapshot open. The index then keeps an entry for every event
// that was ever ready, and each look from the beginning walks all of them. So once looks are slow, most claims begin
// where the last one found its events; a look from the beginning follows often enough for what was filed further
// back: retries do not depend on it, the next event of an aggregate waits for it.
type horizon struct {
	last   *uuid.UUID
	looked time.Time
	cost   time.Duration
}

// since is the event at which a claim may begin, or nil for the beginning.
func (h *horizon) since(ask ask, now time.Time) *uuid.UUID {
	if ask.trial || ask.suspects || h.cost < slowLook || now.Sub(h.looked) > lookShare*h.cost {
		return nil
	}
	return h.last
}

// note learns from an ordinary claim. One that came back short has seen the end of the queue: the next looks from the
// beginning again.
func (h *horizon) note(ask ask, events []Claimed, sent time.Time, took time.Duration) {
	if ask.trial || ask.suspects {
		return
	}
	if ask.since == nil {
		h.looked, h.cost = sent, took
	}
	h.last = nil
	if len(events) == ask.limit {
		h.last = &events[len(events)/2].ID
	}
}
