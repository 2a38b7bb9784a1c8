package outbox

import (
	"context"
	"log/slog"
	"time"
)

// healInterval lets one worker look at 60,000 aggregates a minute.
const healInterval = 2 * time.Second

// healer looks after the rail's own marks, a portion at a time.
type healer struct {
	store *store
	log   *slog.Logger
}

func (h *healer) run(ctx context.Context) {
	for {
		timer := time.NewTimer(jitter(healInterval))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		healed, err := h.store.heal(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			h.log.Warn("outbox: the rail's marks could not be checked", "error", err)
		case healed > 0:
			h.log.Warn("outbox: marks of the rail were set right", "events", healed)
		}
	}
}
