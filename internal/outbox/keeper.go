package outbox

import (
	"context"
	"log/slog"
	"time"
)

// keeper keeps the leases of running handlers, and ends a handler before a lease it could not keep.
type keeper struct {
	rail    rail
	flights *flights
	lease   time.Duration
	log     *slog.Logger
	failing streak
}

func (k *keeper) run(ctx context.Context) {
	tick := time.NewTicker(k.lease / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.extend(ctx)
		}
	}
}

// extend renews every lease that is a third gone. What the database no longer grants is lost to another worker; what
// it cannot be asked about counts as lost when two more looks would come too late.
func (k *keeper) extend(ctx context.Context) {
	now := time.Now()
	if due := k.flights.due(now.Add(2 * k.lease / 3)); len(due) > 0 {
		k.renew(ctx, due, now)
	}
	deadline := time.Now().Add(2 * k.lease / 10)
	if n := k.flights.cancel(ErrLeaseLost, func(f *flight) bool { return f.leaseEnds.Before(deadline) }); n > 0 {
		k.log.Error("outbox: leases could not be kept, their handlers are being cancelled", "events", n)
	}
}

func (k *keeper) renew(ctx context.Context, due []Claimed, now time.Time) {
	call, cancel := context.WithTimeout(ctx, k.lease/10)
	defer cancel()
	kept, err := k.rail.extend(call, due, k.lease)
	if locked(err) && len(due) > 1 {
		// One row that somebody else holds must not cost the others their leases.
		for i := range due {
			k.renew(ctx, due[i:i+1], now)
		}
		return
	}
	k.failing.note(k.log, err, "outbox: leases cannot be extended")
	if err != nil {
		return
	}
	k.flights.extended(kept, now.Add(k.lease))
	asked := make(map[string]bool, len(due))
	for _, event := range due {
		asked[event.Token] = true
	}
	lost := k.flights.cancel(ErrLeaseLost, func(f *flight) bool { return asked[f.event.Token] && !kept[f.event.Token] })
	if lost > 0 {
		k.log.Warn("outbox: leases are lost to others, their handlers are being cancelled", "events", lost)
	}
}
