package scenario

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/sample"
)

func skew(ctx context.Context, env Env) error {
	env.Report.Heading("Skew of keys")
	env.Report.Note("Acknowledged events per second of the default worker, with handlers that do nothing but check " +
		"the order. The events were enqueued 100 per transaction. One hot key shows the price of order: each event waits for the " +
		"acknowledgement of the one before.")
	var rows [][]any
	for _, s := range []struct {
		name string
		keys func() rail.Keys
		n    int
	}{
		{"one aggregate per event", func() rail.Keys { return rail.OneEach }, env.Size.Jobs / 2},
		{"Zipf, s = 1.1, 10,000 aggregates", func() rail.Keys { return rail.Zipf(1.1, 10_000) }, env.Size.Jobs / 8},
		{"one hot aggregate", func() rail.Keys { return rail.OneHot }, env.Size.Jobs / 40},
	} {
		var rates sample.Set
		for range env.Size.Rounds {
			rate, err := orderedRate(ctx, env, s.keys(), s.n)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			env.Log("skew, %s: %.0f/s", s.name, rate)
			rates = append(rates, rate)
		}
		rows = append(rows, []any{s.name, s.n, rates.Median(), rates.Quantile(0), rates.Max()})
	}
	env.Report.Table([]string{"keys", "events", "events/s", "slowest", "fastest"}, rows...)
	return nil
}

// orderedRate works off n events with these keys, and fails if an aggregate's came
// in another order than they were enqueued in.
func orderedRate(ctx context.Context, env Env, keys rail.Keys, n int) (float64, error) {
	aggregates := make([]uuid.UUID, n)
	for i := range aggregates {
		aggregates[i] = keys(i)
	}
	q, err := queue.Rail{}.Open(ctx, env.Bed, queue.Options{Keys: func(i int) uuid.UUID { return aggregates[i] }})
	if err != nil {
		return 0, err
	}
	defer q.Close()
	if err := queue.Fill(ctx, q, n, 100); err != nil {
		return 0, err
	}
	order := newOrderCheck(aggregates)
	effort, err := queue.Drain(ctx, q, n, order.handled)
	if err != nil {
		return 0, err
	}
	return effort.PerSecond(), order.err()
}

// orderCheck sees whether events of each aggregate arrive by ascending number.
type orderCheck struct {
	aggregates []uuid.UUID
	mu         sync.Mutex
	last       map[uuid.UUID]int
	violations int
}

func newOrderCheck(aggregates []uuid.UUID) *orderCheck {
	return &orderCheck{aggregates: aggregates, last: map[uuid.UUID]int{}}
}

// handled takes a repeat for what it is: delivery is at least once.
func (o *orderCheck) handled(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := o.aggregates[n]
	if last, seen := o.last[key]; seen && n < last {
		o.violations++
	}
	o.last[key] = n
}

func (o *orderCheck) err() error {
	if o.violations > 0 {
		return fmt.Errorf("%d events overtook an older one of their aggregate", o.violations)
	}
	return nil
}
