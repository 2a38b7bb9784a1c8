package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/report"
	"github.com/openlup/pgrail/bench/internal/sample"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// Case G7: history measures what does not get dearer as processed events pile up: work, the
// look at an empty queue, and a scrape of the statistics.
func history(ctx context.Context, env Env) error {
	env.Report.Heading("History")
	env.Report.Note("With that many processed events in the table: acknowledged events per second of the default worker; and " +
		"the median time, in ms, of a claim that finds nothing and of a scrape (`outbox_stats`), each on an otherwise empty queue " +
		"and the scrape beside a backlog too.")
	var results []historyCost
	for _, n := range []int{0, env.Size.History} {
		env.Log("history: %d processed events", n)
		h, err := withHistory(ctx, env, n)
		if err != nil {
			return err
		}
		results = append(results, h)
	}
	var rows [][]any
	for _, h := range results {
		rows = append(rows, []any{h.processed, h.rates.Median(), h.poll, h.scrape, h.scrapeBacklog})
	}
	env.Report.Table([]string{"processed", "events/s", "empty poll", "scrape", fmt.Sprintf("scrape, %d waiting", env.Size.Jobs)}, rows...)
	none, many := results[0], results[1]
	env.Report.Target("history, events/s with : without", many.rates.Median()/none.rates.Median(), report.AtLeast(0.9, "×"))
	env.Report.Target("history, empty poll with : without", many.poll/none.poll, report.AtMost(1.5, "×"))
	env.Report.Target("history, scrape with : without", many.scrape/none.scrape, report.AtMost(1.5, "×"))
	return nil
}

type historyCost struct {
	processed                   int
	rates                       sample.Set
	poll, scrape, scrapeBacklog float64
}

func withHistory(ctx context.Context, env Env, n int) (historyCost, error) {
	h := historyCost{processed: n}
	q, err := queue.Rail{}.Open(ctx, env.Bed, queue.Options{})
	if err != nil {
		return h, err
	}
	defer q.Close()
	db := q.Database()
	if err := loadHistory(ctx, db, n); err != nil {
		return h, err
	}
	if h.poll, err = medianOf(ctx, db, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := rail.Claim(ctx, conn, rail.Types, batch)
		return err
	}); err != nil {
		return h, err
	}
	if h.scrape, err = medianOf(ctx, db, scrape); err != nil {
		return h, err
	}
	for range env.Size.Rounds {
		if err := h.work(ctx, env, q); err != nil {
			return h, err
		}
	}
	return h, nil
}

func loadHistory(ctx context.Context, db *testbed.Database, n int) error {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if n > 0 {
		if _, err := rail.ProcessedRows.Load(ctx, conn.Conn(), n); err != nil {
			return err
		}
	}
	return db.Rest(ctx)
}

// work has the worker drain a backlog, after one scrape beside it.
func (h *historyCost) work(ctx context.Context, env Env, q queue.Queue) error {
	n, from := env.Size.Jobs, len(h.rates)*env.Size.Jobs
	for i := 0; i < n; i += batchSize {
		if err := q.Insert(ctx, from+i, min(batchSize, n-i)); err != nil {
			return err
		}
	}
	if err := q.Database().Rest(ctx); err != nil {
		return err
	}
	var err error
	if h.scrapeBacklog, err = medianOf(ctx, q.Database(), scrape); err != nil {
		return err
	}
	effort, err := queue.Drain(ctx, q, n, func(int) {})
	h.rates = append(h.rates, effort.PerSecond())
	return err
}

func scrape(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT s.* FROM public.outbox_stats(10000) AS s`)
	return err
}

// medianOf is what one call takes in the middle, in ms, on a session that is warm.
func medianOf(ctx context.Context, db *testbed.Database, call func(context.Context, *pgx.Conn) error) (float64, error) {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	var taken sample.Set
	for i := range 8 + 51 {
		start := time.Now()
		if err := call(ctx, conn.Conn()); err != nil {
			return 0, err
		}
		if i >= 8 {
			taken.Add(time.Since(start))
		}
	}
	return taken.Median(), nil
}
