package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/openlup/pgrail/internal/db"
)

// Retention is how long events at rest are kept; 0 is for ever. Without Processed nothing is deleted.
type Retention struct{ Processed, Discarded time.Duration }

// pruneRail is the part about what may be forgotten.
type pruneRail interface {
	// prune deletes the oldest of what need not be kept, up to atMost of each kind, and returns how much that was: -1
	// while another worker is at it.
	prune(ctx context.Context, keep Retention, atMost int) (int, error)
}

const (
	// pruneInterval passes between looks that find little; the first one comes soon, for workers that live briefly.
	pruneInterval, pruneSoon = time.Minute, time.Second
	// pruneBatch bounds a transaction: some ten milliseconds on a fast disk.
	pruneBatch = 1000
)

// pruner deletes what is older than it need be. It takes no more than half of one connection's time, and of all workers
// one does it.
type pruner struct {
	rail pruneRail
	keep Retention
	log  *slog.Logger
	bad  streak
}

func (p *pruner) run(ctx context.Context) {
	if p.keep.Processed == 0 {
		return
	}
	pause := jitter(pruneSoon)
	for !within(pause, ctx.Done(), nil) {
		began := time.Now()
		if p.batch(ctx) {
			pause = time.Since(began)
		} else {
			pause = jitter(pruneInterval)
		}
	}
}

// batch is true when there is more to delete.
func (p *pruner) batch(ctx context.Context) (more bool) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	deleted, err := p.rail.prune(call, p.keep, pruneBatch)
	if ctx.Err() == nil {
		p.bad.note(p.log, err, "outbox: old events cannot be deleted")
	}
	return deleted >= pruneBatch
}

func (s *store) prune(ctx context.Context, keep Retention, atMost int) (int, error) {
	params := db.OutboxRetainParams{KeepSeconds: keep.Processed.Seconds(), AtMost: int32(atMost)}
	if keep.Discarded > 0 {
		discarded := keep.Discarded.Seconds()
		params.KeepDiscardedSeconds = &discarded
	}
	deleted, err := s.q.OutboxRetain(ctx, params)
	return int(deleted), s.heard(err)
}
