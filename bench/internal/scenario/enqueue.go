package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/report"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// batchSize is what a bulk insert carries.
const batchSize = 5000

// insertConns are over how many connections inserts are spread.
var insertConns = []int{1, 2, 4}

func enqueue(ctx context.Context, env Env) error {
	env.Report.Heading("Enqueueing")
	env.Report.Note("Events per second written with no worker running: in batches of %d, River by InsertManyFast (COPY), the rail by Enqueue, "+
		"which locks aggregates, stamps and checks for duplicates; and one event per transaction. Aggregates: one per event.", batchSize)
	bulk := func(conns int) (rails, rivers *runner) { return inserters(conns, batchSize, "batches") }
	single := func(conns int) (rails, rivers *runner) { return inserters(conns, 1, "one per transaction") }
	var rows [][]any
	for _, kind := range []struct {
		make func(conns int) (rails, rivers *runner)
		n    int
	}{{bulk, env.Size.Jobs}, {single, env.Size.Singles}} {
		ours, peers, err := compareInserters(ctx, env, kind.make, kind.n)
		if err != nil {
			return err
		}
		for i := range ours {
			rows = append(rows, inserterRow(ours[i], best(peers)), inserterRow(peers[i], best(peers)))
		}
		if kind.n == env.Size.Jobs {
			env.Report.Target("enqueue in batches, rail : River's InsertManyFast", best(ours)/best(peers), report.AtLeast(1, "×"))
		}
	}
	env.Report.Table([]string{"contender", "events/s", ": River's best", "server µs", "client µs", "rounds"}, rows...)
	return nil
}

func inserterRow(r *runner, peer float64) []any {
	return []any{r.name, r.rates.Median(), r.rates.Median() / peer, r.server.Median(), r.client.Median(), report.Numbers(r.rates)}
}

// compareInserters has both write n events in each round, with each number of connections.
func compareInserters(ctx context.Context, env Env, inserters func(conns int) (rails, rivers *runner), n int) (ours, peers []*runner, err error) {
	for _, conns := range insertConns[:min(env.Size.Variants, len(insertConns))] {
		rails, rivers := inserters(conns)
		ours, peers = append(ours, rails), append(peers, rivers)
	}
	for round := range env.Size.Rounds {
		for i := range ours {
			if err := runAll(ctx, env, []*runner{ours[i], peers[i]}, n, round); err != nil {
				return nil, nil, err
			}
		}
	}
	return ours, peers, nil
}

func inserters(conns, size int, how string) (rails, rivers *runner) {
	name := func(who string) string { return fmt.Sprintf("%s, %s, %d connections", who, how, conns) }
	return &runner{name: name("rail"), run: filler(queue.Rail{}.Open, conns, size)},
		&runner{name: name("River"), run: filler(queue.River{}.Open, conns, size)}
}

// filler measures how long n events take, size at a time on conns connections.
func filler(open opener, conns, size int) func(context.Context, *testbed.Bed, int) (queue.Effort, error) {
	return func(ctx context.Context, bed *testbed.Bed, n int) (queue.Effort, error) {
		q, err := open(ctx, bed, queue.Options{Conns: conns})
		if err != nil {
			return queue.Effort{}, err
		}
		defer q.Close()
		// The first calls prepare statements and fill caches.
		for i := range conns {
			if err := q.Insert(ctx, n+i*size, size); err != nil {
				return queue.Effort{}, err
			}
		}
		if err := q.Database().Rest(ctx); err != nil {
			return queue.Effort{}, err
		}
		return queue.Measure(ctx, q.Database(), n, func() error { return insertAll(ctx, q, conns, n, size) })
	}
}

// insertAll inserts the events 0 to n-1 from conns goroutines, size at a time.
func insertAll(ctx context.Context, q queue.Queue, conns, n, size int) error {
	var next atomic.Int64
	errs := make([]error, conns)
	var running sync.WaitGroup
	for i := range conns {
		running.Go(func() {
			for errs[i] == nil {
				from := int(next.Add(int64(size))) - size
				if from >= n {
					return
				}
				errs[i] = q.Insert(ctx, from, min(size, n-from))
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
