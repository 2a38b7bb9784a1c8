package outbox

import (
	"context"
	"time"
)

// Observer is told what neither a handler nor its caller can see. Its functions may be nil; they are called from the loop's own
// goroutines, so they must return quickly.
type Observer struct {
	Claimed  func(events int, took time.Duration)
	Extended func(leases int)
	TookOver func(events int)
	Healed   func(marks int)
	Pruned   func(events int)
}

// observe puts an observer beside a rail, so that the loop itself need not know of it.
func observe(r rail, o Observer) rail { return &observed{rail: r, to: o} }

type observed struct {
	rail
	to Observer
}

func (o *observed) claim(ctx context.Context, ask ask, known []string, lease time.Duration) ([]Claimed, error) {
	began := time.Now()
	events, err := o.rail.claim(ctx, ask, known, lease)
	if o.to.Claimed != nil && err == nil {
		o.to.Claimed(len(events), time.Since(began))
	}
	return events, err
}

func (o *observed) extend(ctx context.Context, events []Claimed, lease time.Duration) (map[string]bool, error) {
	kept, err := o.rail.extend(ctx, events, lease)
	tell(o.to.Extended, len(kept))
	return kept, err
}

func (o *observed) takeOver(ctx context.Context, silent time.Duration) (int32, error) {
	taken, err := o.rail.takeOver(ctx, silent)
	tell(o.to.TookOver, int(taken))
	return taken, err
}

func (o *observed) heal(ctx context.Context) (int32, error) {
	healed, err := o.rail.heal(ctx)
	tell(o.to.Healed, int(healed))
	return healed, err
}

func (o *observed) prune(ctx context.Context, keep Retention, atMost int) (int, error) {
	deleted, err := o.rail.prune(ctx, keep, atMost)
	tell(o.to.Pruned, deleted)
	return deleted, err
}

func tell(observer func(int), n int) {
	if observer != nil && n > 0 {
		observer(n)
	}
}
