package outbox

import (
	"context"
	"log/slog"
	"time"
)

// keeper keeps the leases of running handlers, and ends a handler before a lease it could not keep.
type keeper struct {
	store   *store
	flights *flights
	lease   time.Duration
	log     *slog.Logger
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
	ctx, cancel := context.WithTimeout(ctx, k.lease/10)
	defer cancel()
	var ids, tokens []string
	asked := map[string]bool{}
	for _, event := range due {
		ids, tokens = append(ids, event.ID.String()), append(tokens, event.Token)
		asked[event.Token] = true
	}
	held, err := k.store.extend(ctx, ids, tokens, k.lease)
	if err != nil {
		k.log.Warn("outbox: leases were not extended", "events", len(due), "error", err)
		return
	}
	k.flights.extended(held, now.Add(k.lease))
	kept := map[string]bool{}
	for _, id := range held {
		kept[id.String()] = true
	}
	k.flights.cancel(ErrLeaseLost, func(f *flight) bool {
		return asked[f.event.Token] && !kept[f.event.ID.String()]
	})
}
