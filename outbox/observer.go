package outbox

import (
	"cmp"
	"time"

	internal "github.com/openlup/pgrail/internal/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Observer is told what middleware cannot see, for metrics: package outbox/outboxotel fills one. Any of its functions may be
// nil. They are called from several goroutines of the worker and hold it up until they return.
type Observer struct {
	// Settled tells what became of an event, once the database has taken it.
	Settled func(envelope event.Envelope, outcome Outcome)
	// Claimed tells how many events a claim brought, 0 to 1000, and how long it took.
	Claimed func(events int, took time.Duration)
	// Extended tells for how many running handlers the lease has been extended.
	Extended func(leases int)
	// TookOver tells how many events of dead workers have been given back.
	TookOver func(events int)
	// Healed tells how many marks of the rail were wrong and have been set right, which plain UPDATEs by hand can bring about.
	Healed func(marks int)
	// Pruned tells how many old events this worker has deleted at once, where it retains them for a time only.
	Pruned func(events int)
}

// Outcome is what the rail has recorded of one delivery.
type Outcome string

// The outcomes of a delivery.
const (
	OutcomeProcessed Outcome = "processed"
	// OutcomeFailed events are tried again.
	OutcomeFailed    Outcome = "failed"
	OutcomeSnoozed   Outcome = "snoozed"
	OutcomeDiscarded Outcome = "discarded"
	// OutcomeReleased events were given back without an attempt, as when the worker stops.
	OutcomeReleased Outcome = "released"
	// OutcomeLost came after another worker had taken the event over, and counts for nothing.
	OutcomeLost Outcome = "lost"
	// OutcomeRefused could not be stored, for a reason of this very event; its lease runs out.
	OutcomeRefused Outcome = "refused"
)

// synonyms are words of the mechanism that say how an end came about, not what it is.
var synonyms = map[string]Outcome{
	"repeated": OutcomeProcessed, "settled": OutcomeProcessed, "release": OutcomeReleased, "missed": OutcomeLost,
}

func toOutcome(word string) Outcome { return cmp.Or(synonyms[word], Outcome(word)) }

// into hands the observer to the mechanism.
func (o Observer) into(cfg *internal.Config) {
	cfg.Observer = internal.Observer{Claimed: o.Claimed, Extended: o.Extended, TookOver: o.TookOver, Healed: o.Healed, Pruned: o.Pruned}
	if o.Settled != nil {
		cfg.Settled = func(claimed internal.Claimed, outcome string) {
			o.Settled(event.Envelope(claimed.Envelope), toOutcome(outcome))
		}
	}
}
