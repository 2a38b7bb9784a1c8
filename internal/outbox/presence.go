package outbox

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// How a worker's death shows: it has been silent for silence, and its session has ended.
const (
	heartbeatInterval = 3 * time.Second
	silence           = 10 * time.Second
	farewell          = 2 * time.Second
)

// presence says that this worker lives, and looks for others that do not. The listener's session carries the lock that
// ends with the process.
type presence struct {
	store    *store
	flights  *flights
	types    []string
	log      *slog.Logger
	suspects atomic.Bool
	known    bool
}

// run beats until ctx ends, then takes this worker off the list.
func (p *presence) run(ctx context.Context) {
	defer p.leave(context.WithoutCancel(ctx))
	for {
		timer := time.NewTimer(jitter(heartbeatInterval))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			p.beat(ctx)
		}
	}
}

func (p *presence) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, silence/2)
	defer cancel()
	alive, err := p.store.heartbeat(ctx)
	if err != nil {
		p.log.Warn("outbox: no heartbeat", "error", err)
		return
	}
	if p.known && !alive {
		p.log.Error("outbox: this worker was taken for dead while it was cut off; its events belong to others now")
		p.flights.cancel(ErrLeaseLost, func(*flight) bool { return true })
	}
	p.known = alive
	taken, err := p.store.takeOver(ctx, silence)
	if err != nil {
		p.log.Warn("outbox: could not look for dead workers", "error", err)
		return
	}
	if taken > 0 {
		p.log.Warn("outbox: took over the events of a dead worker", "events", taken)
	}
	if suspect, err := p.store.anySuspect(ctx, p.types); err == nil {
		p.suspects.Store(suspect)
	}
}

func (p *presence) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if err := p.store.disappear(ctx); err != nil {
		p.log.Warn("outbox: could not say goodbye; the others will notice", "error", err)
	}
}
