package outbox

import (
	"context"

	internal "github.com/openlup/pgrail/internal/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Delivery is one event that a handler was called for, and what became of it.
type Delivery struct {
	event.Envelope
	Outcome Outcome
	// Error of the handler as it is stored with the event; empty for none.
	Error string
}

// Drain handles what is due, one event after another, until nothing is, calls tell with each delivery, and returns. It is for
// tests, for which package outboxtest wraps it, and for jobs that run now and then instead of all the time. It may be
// called any number of times, one after another, also beside running workers, but not on a worker that runs or has been stopped.
//
// What somebody else has locked is waited for, but no longer than five seconds: then Drain returns although it is due. So it
// does when the events it has to look at in vain, behind one that waits, are so many that five seconds do not suffice; the next
// call goes on from there.
//
// Handlers must return within Config.Lease, as it is not extended. An event that is to be tried again later stays for a later
// call. Errors are those of [Worker.Run], and an outage of the database is one too; ctx ends it between two events.
func (w *Worker) Drain(ctx context.Context, tell func(Delivery)) error {
	if !w.state.CompareAndSwap(fresh, draining) {
		return ErrStarted
	}
	// Whichever way it ends, tell's panics included; unless the worker has been stopped meanwhile.
	defer w.state.CompareAndSwap(draining, fresh)
	if tell == nil {
		tell = func(Delivery) {}
	}
	return translate("drain", internal.Drain(ctx, w.pool.Config(), w.cfg, w.handle, func(d internal.Delivery) {
		tell(Delivery{event.Envelope(d.Envelope), toOutcome(d.Outcome), d.Error})
	}))
}
