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
	rail rail
	log  *slog.Logger
	bad  streak
}

func (h *healer) run(ctx context.Context) {
	for !within(jitter(healInterval), ctx.Done(), nil) {
		h.look(ctx)
	}
}

func (h *healer) look(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	healed, err := h.rail.heal(call)
	if ctx.Err() != nil {
		return
	}
	h.bad.note(h.log, err, "outbox: the rail's marks could not be checked")
	if healed > 0 {
		h.log.Warn("outbox: marks of the rail were set right", "events", healed)
	}
}
