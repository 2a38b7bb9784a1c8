package scenario

import (
	"context"
	"fmt"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// footprint measures what an event costs from its insert to its acknowledgement.
func footprint(ctx context.Context, env Env) error {
	n := env.Size.Jobs / 4
	env.Report.Heading("What an event costs")
	env.Report.Note("Per event, of %d, one aggregate each. Statements and round trips are the client's; transactions, WAL and row versions "+
		"(inserted and updated rows) are the server's, everything in the background included. HOT is the share of updates that "+
		"touched no index. Disk is what tables and indexes grew by.", n)
	var rows [][]any
	for _, c := range []struct {
		name string
		open opener
	}{{queue.Rail{}.String(), queue.Rail{}.Open}, {rivers[3].String(), rivers[3].Open}} {
		for _, size := range []int{1, 100, batchSize} {
			env.Log("footprint: %s, inserted %d at a time", c.name, size)
			insert, work, err := usage(ctx, env, c.open, n, size)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rows = append(rows, usageRow(c.name, fmt.Sprintf("insert, %d at a time", size), insert))
			if size == batchSize {
				rows = append(rows, usageRow(c.name, "work", work))
			}
		}
	}
	env.Report.Table([]string{"contender", "part", "statements", "round trips", "transactions", "WAL bytes", "row versions", "HOT", "disk bytes"}, rows...)
	return nil
}

func usageRow(name, part string, u testbed.Usage) []any {
	var hot any
	if u.Updated > 0.01 {
		hot = fmt.Sprintf("%.0f %%", 100*u.HOTUpdated/u.Updated)
	}
	return []any{name, part, u.Statements, u.RoundTrips, u.Transactions, u.WALBytes, u.Inserted + u.Updated, hot, u.Bytes}
}

// usage inserts n events and works them off, on a new connection each, so that the
// server's counters are complete in between.
func usage(ctx context.Context, env Env, open opener, n, size int) (insert, work testbed.Usage, err error) {
	meter := &testbed.Meter{}
	q, err := open(ctx, env.Bed, queue.Options{Meter: meter, Conns: 4})
	if err != nil {
		return insert, work, err
	}
	defer q.Close()
	if err := q.Database().Rest(ctx); err != nil {
		return insert, work, err
	}
	var stages [3]testbed.Usage
	if stages[0], err = q.Database().Usage(ctx, meter); err != nil {
		return insert, work, err
	}
	if err := insertAll(ctx, q, 4, n, size); err != nil {
		return insert, work, err
	}
	q.Disconnect()
	if stages[1], err = q.Database().Usage(ctx, meter); err != nil {
		return insert, work, err
	}
	if _, err := queue.Drain(ctx, q, n, func(int) {}); err != nil {
		return insert, work, err
	}
	q.Disconnect()
	stages[2], err = q.Database().Usage(ctx, meter)
	return stages[1].PerEvent(stages[0], n), stages[2].PerEvent(stages[1], n), err
}
