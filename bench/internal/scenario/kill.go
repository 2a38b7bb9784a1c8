package scenario

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/report"
	"github.com/openlup/pgrail/outbox"
)

// WorkerURL is the environment variable that makes this program the process to be
// killed: it works off the database named there, and prints each event's number.
const WorkerURL = "PGRAIL_BENCH_WORKER_URL"

// killLease is the shortest there is; held events come back after it.
const killLease = 30 * time.Second

// RunWorker is that process.
func RunWorker(ctx context.Context, url string) error {
	return queue.Rail{Config: outbox.Config{Lease: killLease}}.Run(ctx, url, func(n int) {
		fmt.Println(n)
	})
}

// kill measures what the death of a worker process costs.
func kill(ctx context.Context, env Env) error {
	n := env.Size.Jobs / 10
	env.Report.Heading("kill -9")
	env.Report.Note("A worker process is killed %d times while it works off %d events of %d aggregates, and another takes over. Lease %v. "+
		"Repeats are events whose handler had run but whose acknowledgement was lost with the process.",
		env.Size.Kills, n, n/10, killLease)
	aggregates := make([]uuid.UUID, n)
	for i := range aggregates {
		aggregates[i] = rail.OneEach(i % max(1, n/10))
	}
	q, err := queue.Rail{}.Open(ctx, env.Bed, queue.Options{Keys: func(i int) uuid.UUID { return aggregates[i] }})
	if err != nil {
		return err
	}
	defer q.Close()
	if err := queue.Fill(ctx, q, n, 100); err != nil {
		return err
	}
	log := killLog{order: newOrderCheck(aggregates), seen: map[int]bool{}}
	start := time.Now()
	for i := range env.Size.Kills {
		env.Log("kill: worker %d of %d", i+1, env.Size.Kills+1)
		until := n * (i + 1) / (env.Size.Kills + 1)
		if err := log.work(ctx, q, until, func() error { return nil }); err != nil {
			return err
		}
	}
	if err := log.work(ctx, q, n, func() error { return queue.Acknowledged(ctx, q) }); err != nil {
		return err
	}
	return log.report(ctx, env, q, n, time.Since(start))
}

// killLog is what the processes printed before they died.
type killLog struct {
	order   *orderCheck
	seen    map[int]bool
	repeats int
}

// work runs a worker process until so many different events are handled, calls
// before, and kills it. What it had printed counts, also when it is read after that.
func (l *killLog) work(ctx context.Context, q queue.Queue, handled int, before func() error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self)
	child.Env = append(os.Environ(), WorkerURL+"="+q.Database().URL())
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan() && err == nil; {
		if err = l.add(lines.Text()); err == nil && len(l.seen) == handled {
			err = before()
			_ = child.Process.Kill() // that it is dead already shows below
		}
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if err == nil && len(l.seen) < handled {
		err = fmt.Errorf("a worker process ended by itself after %d of %d events", len(l.seen), handled)
	}
	return err
}

func (l *killLog) add(line string) error {
	n, err := strconv.Atoi(line)
	if err != nil {
		return err
	}
	if l.seen[n] {
		l.repeats++
	}
	l.seen[n] = true
	l.order.handled(n)
	return nil
}

func (l *killLog) report(ctx context.Context, env Env, q queue.Queue, n int, taken time.Duration) error {
	var burnt, discarded int
	if err := q.Database().Pool.QueryRow(ctx, `
SELECT sum(e.attempts - 1), count(*) FILTER (WHERE e.status = 'discarded') FROM public.outbox_events AS e`).Scan(&burnt, &discarded); err != nil {
		return err
	}
	env.Report.Table([]string{"events", "kills", "handled", "repeats", "attempts burnt", "discarded", "order violations", "seconds"},
		[]any{n, env.Size.Kills, len(l.seen), l.repeats, burnt, discarded, l.order.violations, taken.Seconds()})
	env.Report.Target("kill -9, share of the events handled", float64(len(l.seen))/float64(n), report.AtLeast(1, ""))
	return l.order.err()
}
