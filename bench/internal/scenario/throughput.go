package scenario

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/report"
	"github.com/openlup/pgrail/bench/internal/sample"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// rivers are the settings tried; the best of them stands for River. Its default
// cooldown of 100 ms is among them.
var rivers = []queue.River{
	{MaxWorkers: 1000, FetchCooldown: time.Millisecond},
	{MaxWorkers: 1000, FetchCooldown: 100 * time.Millisecond},
	{MaxWorkers: 2000, FetchCooldown: time.Millisecond},
	{MaxWorkers: 2000, FetchCooldown: 10 * time.Millisecond},
	{MaxWorkers: 2000, FetchCooldown: 50 * time.Millisecond},
	{MaxWorkers: 2000, FetchCooldown: 100 * time.Millisecond},
	{MaxWorkers: 10000, FetchCooldown: 100 * time.Millisecond},
}

var floors = []queue.Floor{
	{Batch: 100, Conns: 2}, {Batch: 500, Conns: 2}, {Batch: 2000, Conns: 2}, {Batch: 2000, Conns: 1},
}

var bareFunctions = []queue.Functions{
	{Batch: 100, Conns: 1}, {Batch: 500, Conns: 1}, {Batch: 1000, Conns: 1}, {Batch: 500, Conns: 2}, {Batch: 1000, Conns: 2},
}

// A runner is a contender and what it reached in each round.
type runner struct {
	name           string
	run            func(ctx context.Context, bed *testbed.Bed, n int) (queue.Effort, error)
	rates          sample.Set // events per second
	server, client sample.Set // processor time per event, in µs
}

func throughput(ctx context.Context, env Env) error {
	n := env.Size.Jobs
	env.Report.Heading("Throughput")
	env.Report.Note("%d events are there; one process works them off with handlers that do nothing. Events per second from the start until "+
		"the last acknowledgement has committed. All contenders take turns, each time on a new database; the rail keeps order, "+
		"River has none. River gets the best of its settings below, a pool of 10, and jobs without a timeout. The processor time per "+
		"event, in µs, is that of the database's sessions and of the working process.", n)
	peers, ours, functions, floor := runners(env.Size.Variants)
	for round := range env.Size.Rounds {
		for _, group := range [][]*runner{ours, peers, floor, functions} {
			if err := runAll(ctx, env, group, n, round); err != nil {
				return err
			}
		}
	}
	river, bare, rail := best(peers), best(floor), best(ours)
	var rows [][]any
	for _, group := range [][]*runner{ours, functions, peers, floor} {
		for _, r := range group {
			rows = append(rows, []any{r.name, r.rates.Median(), r.rates.Median() / river, r.rates.Median() / bare,
				r.server.Median(), r.client.Median(), report.Numbers(r.rates)})
		}
	}
	env.Report.Table([]string{"contender", "events/s", ": River's best", ": floor", "server µs", "client µs", "rounds"}, rows...)
	env.Report.Target("throughput, rail : River's best", rail/river, report.AtLeast(2, "×"))
	env.Report.Target("throughput, rail : floor", rail/bare, report.AtLeast(0.7, "×"))
	return nil
}

func runners(variants int) (peers, ours, functions, floor []*runner) {
	for _, r := range rivers[:min(variants, len(rivers))] {
		peers = append(peers, &runner{name: r.String(), run: drainer(r.Open)})
	}
	ours = append(ours, &runner{name: queue.Rail{}.String(), run: drainer(queue.Rail{}.Open)})
	for _, f := range bareFunctions[:min(variants, len(bareFunctions))] {
		functions = append(functions, &runner{name: f.String(), run: f.Drain})
	}
	for _, f := range floors[:min(variants, len(floors))] {
		floor = append(floor, &runner{name: f.String(), run: f.Drain})
	}
	return peers, ours, functions, floor
}

// An opener gives a contender its database.
type opener func(ctx context.Context, bed *testbed.Bed, o queue.Options) (queue.Queue, error)

func drainer(open opener) func(context.Context, *testbed.Bed, int) (queue.Effort, error) {
	return func(ctx context.Context, bed *testbed.Bed, n int) (queue.Effort, error) {
		q, err := open(ctx, bed, queue.Options{})
		if err != nil {
			return queue.Effort{}, err
		}
		defer q.Close()
		if err := queue.Fill(ctx, q, n, 5000); err != nil {
			return queue.Effort{}, err
		}
		return queue.Drain(ctx, q, n, func(int) {})
	}
}

func runAll(ctx context.Context, env Env, group []*runner, n, round int) error {
	for _, r := range group {
		effort, err := r.run(ctx, env.Bed, n)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		r.add(effort)
		env.Log("round %d: %s: %.0f/s", round+1, r.name, effort.PerSecond())
	}
	return nil
}

func (r *runner) add(e queue.Effort) {
	each := func(d time.Duration) float64 { return 1000 * sample.Millis(d) / float64(e.Events) }
	r.rates = append(r.rates, e.PerSecond())
	r.server = append(r.server, each(e.CPU.Server))
	r.client = append(r.client, each(e.CPU.Client))
}

// best is the highest median of a group.
func best(group []*runner) float64 {
	most := math.NaN()
	for _, r := range group {
		if rate := r.rates.Median(); math.IsNaN(most) || rate > most {
			most = rate
		}
	}
	return most
}
