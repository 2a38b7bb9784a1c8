package scenario

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/report"
)

func claimCost(ctx context.Context, env Env) error {
	env.Report.Heading("Claim cost against backlog")
	env.Report.Note("Committed calls of `outbox_claim_batch` for %d rows, in ms, with n rows ahead of fresh ones of an aggregate each. "+
		"The backlog may settle first: rows are filed when a claim first sees them. That leaves dead index entries at the front, "+
		"which each claim passes over until the table is vacuumed: autovacuum comes within a minute, this run does it at once, and "+
		"`unswept` is the median until then. Then the sizes take turns, call by call, so that whatever else the machine does meets "+
		"them alike. CPU is what the server computed, the wait for the disk excluded.", batch)
	var warm, settling [][]any
	insert := math.NaN()
	for i, shape := range rail.Shapes {
		if i%env.Size.Stride != 0 || !strings.HasPrefix(shape.Name, env.Size.Shape) {
			continue
		}
		backlogs, err := measureShape(ctx, env, shape)
		if err != nil {
			return fmt.Errorf("%s: %w", shape.Name, err)
		}
		if math.IsNaN(insert) {
			insert = backlogs[len(backlogs)-1].insertPerRow()
		}
		for _, b := range backlogs {
			warm = append(warm, warmRow(shape, b, backlogs[0]))
			settling = append(settling, settlingRow(shape, b))
		}
		judgeShape(env.Report, shape, backlogs, insert)
	}
	env.Report.Table([]string{"shape", "n", "unswept", "median", "p90", "worst", "ratio", "CPU", "ratio", "rows per call"}, warm...)
	env.Report.Note("Settling: all claims from the first until %d in a row are cheap; what a row costs is their time "+
		"beyond that of warm ones, shared among the n rows. It is held against the cheapest way in which a row can be "+
		"inserted: by one statement for all, an aggregate each, commits not durable (the first shape).", calmRuns)
	env.Report.Table([]string{"shape", "n", "insert µs/row", "settle µs/row", "calls", "took ms", "worst ms", "worst : warm", "in CPU"}, settling...)
	return nil
}

func warmRow(shape rail.Shape, b, base *backlog) []any {
	return []any{shape.Name, b.rows, b.unswept.Median(), b.warm.Median(), b.warm.Quantile(0.9), b.warm.Max(),
		b.warm.Median() / base.warm.Median(), b.warm.cpu.Median(), b.warm.cpu.Median() / base.warm.cpu.Median(), b.warm.rowsPerCall()}
}

func settlingRow(shape rail.Shape, b *backlog) []any {
	return []any{shape.Name, b.rows, b.insertPerRow(), b.settlePerRow(), len(b.settle.Set), b.settle.Sum(), b.settle.Max(),
		b.settle.Max() / b.warm.Median(), b.settle.cpu.Max() / b.warm.cpu.Median()}
}

// measureShape measures the shape at each size. What is cheap, the smallest says.
func measureShape(ctx context.Context, env Env, shape rail.Shape) ([]*backlog, error) {
	var backlogs []*backlog
	defer func() {
		for _, b := range backlogs {
			b.db.Drop()
		}
	}()
	cheap := math.Inf(1)
	for _, n := range env.Size.Backlogs {
		env.Log("claim: %s, n = %d", shape.Name, n)
		b, err := newBacklog(ctx, env, shape, n, 1.5*cheap)
		if err != nil {
			return nil, err
		}
		backlogs = append(backlogs, b)
		took, err := b.probe(ctx)
		if err != nil {
			return nil, err
		}
		cheap = min(cheap, took)
	}
	for range env.Size.Calls {
		for _, b := range backlogs {
			if _, err := b.claim(ctx, &b.warm); err != nil {
				return nil, err
			}
		}
	}
	return backlogs, nil
}

func judgeShape(r *report.Report, shape rail.Shape, backlogs []*backlog, insert float64) {
	base := backlogs[0].warm.Median()
	var ratio, call, settle float64
	handed := math.Inf(1)
	for _, b := range backlogs {
		ratio = max(ratio, b.warm.Median()/base)
		call = max(call, b.settle.Max()/b.warm.Median())
		settle = b.settlePerRow() / insert
		handed = min(handed, b.warm.rowsPerCall())
		if !b.settled {
			ratio, call, settle = math.NaN(), math.NaN(), math.NaN()
		}
	}
	r.Target("claim, "+shape.Name+": ratio", ratio, report.AtMost(1.5, "×"))
	r.Target("claim, "+shape.Name+": rows per call", handed, report.AtLeast(batch, ""))
	r.Target("claim, "+shape.Name+": worst call while settling : warm", call, report.AtMost(10, "×"))
	r.Target("claim, "+shape.Name+": settling a row : inserting it", settle, report.AtMost(2, "×"))
}
