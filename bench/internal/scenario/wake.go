package scenario

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/report"
	"github.com/openlup/pgrail/bench/internal/sample"
)

// The ways in which an insert can wake a sleeping worker. The last is what the rail
// does not do: NOTIFY takes a lock that makes commits wait for each other.
var wakeModes = []struct{ name, sql string }{
	{"as shipped", "ALTER TABLE public.outbox_events ENABLE TRIGGER outbox_events_wake, DISABLE TRIGGER bench_notify"},
	{"without wake-up", "ALTER TABLE public.outbox_events DISABLE TRIGGER outbox_events_wake, DISABLE TRIGGER bench_notify"},
	{"NOTIFY per row", "ALTER TABLE public.outbox_events DISABLE TRIGGER outbox_events_wake, ENABLE TRIGGER bench_notify"},
}

const notifyPerRow = `
CREATE FUNCTION public.bench_notify() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN PERFORM pg_notify('bench', new.id::text); RETURN NULL; END $$;
CREATE TRIGGER bench_notify AFTER INSERT ON public.outbox_events FOR EACH ROW EXECUTE FUNCTION public.bench_notify()`

// producers is how many sessions commit at once.
const producers = 8

func wakeUp(ctx context.Context, env Env) error {
	env.Report.Heading("What waking the worker costs producers")
	env.Report.Note("Commits per second of %d sessions that enqueue one event per transaction as fast as they can, beside a running worker. "+
		"The modes take turns of %v on one database.", producers, env.Size.WakeTurn)
	q, err := queue.Rail{}.Open(ctx, env.Bed, queue.Options{Conns: producers})
	if err != nil {
		return err
	}
	defer q.Close()
	if _, err := q.Database().Pool.Exec(ctx, notifyPerRow); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stop, err := q.Start(ctx, func(int) {}, fail)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	rates := make([]sample.Set, len(wakeModes))
	var next atomic.Int64
	for round := range env.Size.WakeRounds + 1 {
		for i, mode := range wakeModes {
			rate, err := commitRate(ctx, env, q, mode.sql, &next)
			if err != nil {
				return err
			}
			if round > 0 { // the first one warms up
				rates[i] = append(rates[i], rate)
			}
			env.Log("wake-up, %s: %.0f commits/s", mode.name, rate)
		}
	}
	reportWake(env.Report, rates)
	return context.Cause(ctx)
}

func reportWake(r *report.Report, rates []sample.Set) {
	without := rates[1].Median()
	var rows [][]any
	for i, mode := range wakeModes {
		rows = append(rows, []any{mode.name, rates[i].Median(), rates[i].Median() / without, report.Numbers(rates[i])})
	}
	r.Table([]string{"mode", "commits/s", ": without", "turns"}, rows...)
	r.Target("wake-up, producers' commit rate with : without", rates[0].Median()/without, report.AtLeast(0.9, "×"))
	r.Target("wake-up, commits per second while measured", rates[0].Median(), report.AtLeast(1000, "/s"))
}

// commitRate has all producers enqueue for one turn, the events numbered from next
// on, and returns their commits per second.
func commitRate(ctx context.Context, env Env, q queue.Queue, mode string, next *atomic.Int64) (float64, error) {
	if _, err := q.Database().Pool.Exec(ctx, mode); err != nil {
		return 0, err
	}
	errs := make([]error, producers)
	var running sync.WaitGroup
	start, before := time.Now(), next.Load()
	for i := range producers {
		running.Go(func() {
			for errs[i] == nil && time.Since(start) < env.Size.WakeTurn {
				errs[i] = q.Insert(ctx, int(next.Add(1)), 1)
			}
		})
	}
	running.Wait()
	return float64(next.Load()-before) / time.Since(start).Seconds(), errors.Join(errs...)
}
