package outbox

import (
	"context"
	"sync"
)

// gate hands out slots for handlers: as many as are free at once, so that one claim can fill them all.
type gate struct {
	mu    sync.Mutex
	free  int
	freed chan struct{}
}

func newGate(slots int) *gate {
	return &gate{free: slots, freed: make(chan struct{}, 1)}
}

// take waits for at least one free slot and takes up to limit. Zero means that ctx ended first.
func (g *gate) take(ctx context.Context, limit int) int {
	for ctx.Err() == nil {
		if n := g.tryTake(limit); n > 0 {
			return n
		}
		select {
		case <-ctx.Done():
			return 0
		case <-g.freed:
		}
	}
	return 0
}

// takeAll takes every one of n slots, as they become free, and reports whether it got them before ctx ended. If not, it
// holds none.
func (g *gate) takeAll(ctx context.Context, n int) bool {
	held := 0
	for held < n {
		got := g.take(ctx, n-held)
		if got == 0 {
			g.give(held)
			return false
		}
		held += got
	}
	return true
}

func (g *gate) tryTake(limit int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(g.free, limit)
	g.free -= n
	return n
}

func (g *gate) give(n int) {
	if n == 0 {
		return
	}
	g.mu.Lock()
	g.free += n
	g.mu.Unlock()
	select {
	case g.freed <- struct{}{}:
	default:
	}
}
