package scenario

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/report"
	"github.com/openlup/pgrail/bench/internal/sample"
)

// openRate is the load of the open loop, in events per second.
const openRate = 1000

// contenders of the latency scenario. River is given its shortest cooldown.
var latencyContenders = []struct {
	name string
	open opener
}{
	{queue.Rail{}.String(), queue.Rail{}.Open},
	{rivers[0].String(), rivers[0].Open},
}

func latency(ctx context.Context, env Env) error {
	env.Report.Heading("Latency")
	env.Report.Note("From the return of the producer's commit to the start of the handler, in ms; producer and worker are in one process. "+
		"Idle: one event at a time, after a random pause of 150 to 350 ms. Open loop: %d events/s are due at fixed times, "+
		"whether or not the earlier ones are through; there the second row counts from when the event was due, so that "+
		"a slow commit shows.", openRate)
	var rows [][]any
	for i, c := range latencyContenders {
		env.Log("latency: %s", c.name)
		idle, err := idleLatency(ctx, env, c.open)
		if err != nil {
			return err
		}
		commit, due, err := openLoop(ctx, env, c.open)
		if err != nil {
			return err
		}
		rows = append(rows, latencyRow(c.name, "idle", idle), latencyRow(c.name, "open loop, from commit", commit),
			latencyRow(c.name, "open loop, from due time", due))
		if i == 0 {
			env.Report.Target("latency, idle, p50", idle.Quantile(0.5), report.AtMost(5, " ms"))
			env.Report.Target("latency, idle, p99", idle.Quantile(0.99), report.AtMost(50, " ms"))
			env.Report.Target("latency, open loop, p99", commit.Quantile(0.99), report.AtMost(100, " ms"))
		}
	}
	env.Report.Table([]string{"contender", "load", "samples", "p50", "p90", "p99", "worst"}, rows...)
	return nil
}

func latencyRow(name, load string, s sample.Set) []any {
	return []any{name, load, len(s), s.Quantile(0.5), s.Quantile(0.9), s.Quantile(0.99), s.Max()}
}

// started opens a contender whose worker reports each event that it starts.
func started(ctx context.Context, env Env, open opener, handle func(n int), fail func(error)) (queue.Queue, func(), error) {
	q, err := open(ctx, env.Bed, queue.Options{Conns: 16})
	if err != nil {
		return nil, nil, err
	}
	stop, err := q.Start(ctx, handle, fail)
	if err != nil {
		q.Close()
		return nil, nil, err
	}
	return q, func() { _ = stop(); q.Close() }, nil
}

func idleLatency(ctx context.Context, env Env, open opener) (sample.Set, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	starts := make(chan time.Time, 1)
	q, end, err := started(ctx, env, open, func(int) { starts <- time.Now() }, fail)
	if err != nil {
		return nil, err
	}
	defer end()
	var taken sample.Set
	for i := range env.Size.IdleEvents + 5 {
		if err := pause(ctx, 150*time.Millisecond+rand.N(200*time.Millisecond)); err != nil {
			return nil, err
		}
		if err := q.Insert(ctx, i, 1); err != nil {
			return nil, err
		}
		committed := time.Now()
		select {
		case start := <-starts:
			// The first ones prepare statements.
			if i >= 5 {
				taken.Add(max(0, start.Sub(committed)))
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return taken, nil
}

// openLoop sends an event per millisecond from as many goroutines as it takes.
func openLoop(ctx context.Context, env Env, open opener) (fromCommit, fromDue sample.Set, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	n := int(env.Size.OpenLoop.Seconds() * openRate)
	starts := make([]atomic.Int64, n)
	begin := time.Now()
	var all sync.WaitGroup
	all.Add(n)
	q, end, err := started(ctx, env, open, func(i int) {
		if starts[i].CompareAndSwap(0, int64(time.Since(begin))) {
			all.Done()
		}
	}, fail)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	due, committed := produce(ctx, q, n, begin, fail)
	if err := wait(ctx, &all); err != nil {
		return nil, nil, err
	}
	for i := n / 10; i < n; i++ { // the first tenth warms up
		start := time.Duration(starts[i].Load())
		fromCommit.Add(max(0, start-committed[i]))
		fromDue.Add(start - due[i])
	}
	return fromCommit, fromDue, nil
}

// produce inserts n events at their due times and returns these and the times of
// the commits, all counted from begin.
func produce(ctx context.Context, q queue.Queue, n int, begin time.Time, fail func(error)) (due, committed []time.Duration) {
	due, committed = make([]time.Duration, n), make([]time.Duration, n)
	var sending sync.WaitGroup
	first := time.Since(begin) + 200*time.Millisecond
	for i := range n {
		due[i] = first + time.Duration(i)*time.Second/openRate
		if pause(ctx, due[i]-time.Since(begin)) != nil {
			break
		}
		sending.Go(func() {
			if err := q.Insert(ctx, i, 1); err != nil {
				fail(err)
			}
			committed[i] = time.Since(begin)
		})
	}
	sending.Wait()
	return due, committed
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func wait(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
