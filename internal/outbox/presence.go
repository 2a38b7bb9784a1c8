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
	// recovery is how long the database must have been in reach before others' silence means anything: after an outage
	// all have been silent, and the first one back must not take the living for dead.
	recovery = silence
	farewell = 2 * time.Second
)

// presence says that this worker lives, and looks for others that do not. The listener's session carries the lock that
// ends with the process.
type presence struct {
	rail     presenceRail
	flights  *flights
	types    []string
	log      *slog.Logger
	suspects atomic.Bool
	// asked is set once a heartbeat has got through, known where it found this worker on the list.
	asked, known bool
	// steady is since when every heartbeat has got through, heard when the last one did, or when this worker began.
	steady, heard time.Time
	mute          streak
}

// run beats until ctx ends, then takes this worker off the list.
func (p *presence) run(ctx context.Context) {
	defer p.leave(context.WithoutCancel(ctx))
	p.heard = time.Now()
	for !within(jitter(heartbeatInterval), ctx.Done(), nil) {
		call, cancel := context.WithTimeout(ctx, silence/2)
		err := p.beat(call)
		cancel()
		if err != nil {
			p.steady = time.Time{}
			p.giveUp()
		}
		if ctx.Err() == nil {
			p.mute.note(p.log, err, "outbox: no heartbeat, or no look at those of others")
		}
	}
}

func (p *presence) beat(ctx context.Context) error {
	alive, err := p.rail.heartbeat(ctx)
	if err != nil {
		return err
	}
	if p.known && !alive {
		p.log.Error("outbox: this worker was taken for dead while it was cut off; its events belong to others now")
		p.flights.cancel(ErrLeaseLost, func(*flight) bool { return true })
	}
	p.asked, p.known, p.heard = true, alive, time.Now()
	if err := p.takeOver(ctx); err != nil {
		return err
	}
	suspect, err := p.rail.anySuspect(ctx, p.types)
	if err == nil {
		p.suspects.Store(suspect)
	}
	return err
}

// giveUp ends the handlers of a worker that nobody has heard for so long that others may be taking its events: not of one
// that is on no list.
func (p *presence) giveUp() {
	if p.asked && !p.known || time.Since(p.heard) < silence-heartbeatInterval {
		return
	}
	if n := p.flights.cancel(ErrLeaseLost, func(*flight) bool { return true }); n > 0 {
		p.log.Error("outbox: no heartbeat gets through, so others may take this worker for dead; its handlers are being cancelled", "events", n)
	}
}

// takeOver gives back what dead workers held, once this one has been in touch for long enough to tell.
func (p *presence) takeOver(ctx context.Context) error {
	if p.steady.IsZero() {
		p.steady = time.Now()
	}
	if time.Since(p.steady) < recovery {
		return nil
	}
	taken, err := p.rail.takeOver(ctx, silence)
	if taken > 0 {
		p.log.Warn("outbox: took over the events of a dead worker", "events", taken)
	}
	return err
}

func (p *presence) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if err := p.rail.disappear(ctx); err != nil {
		p.log.Warn("outbox: could not say goodbye; the others will notice", "error", err)
	}
}
