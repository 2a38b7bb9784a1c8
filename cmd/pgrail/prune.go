package main

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
)

type pruneCmd struct {
	Keep          days `required:"" help:"Delete events that were processed longer ago than this, such as 30d. Within it, duplicates are recognised."`
	KeepDiscarded days `placeholder:"DURATION" help:"Delete discarded events that were written longer ago than this. Without it they stay."`
	Batch         int  `default:"1000" help:"Delete so many of each kind at once, from 1 to 10000."`
	Yes           bool `help:"Do it. Without this, the command counts, and refuses."`
	DryRun        bool `help:"Count, and do nothing."`
}

// countedTo bounds what a dry run counts.
const countedTo = 1_000_000

type pruned struct {
	Deleted int  `json:"deleted"`
	Done    bool `json:"done"` // false when broken off
}

type prunable struct {
	DryRun    bool  `json:"dry_run"`
	Processed int64 `json:"processed"`
	Discarded int64 `json:"discarded"`
}

// Validate is called by kong.
func (c pruneCmd) Validate() error {
	if c.Batch < 1 || c.Batch > 10000 {
		return fail(exitUse, "--batch must be 1 to 10000")
	}
	if c.KeepDiscarded < 0 {
		return fail(exitUse, "--keep-discarded must be more than 0")
	}
	return nil
}

func (c pruneCmd) Run(a *app) error {
	return a.withConn(func(conn *pgx.Conn) error {
		if !c.Yes || c.DryRun {
			return c.count(a, db.New(conn))
		}
		return c.prune(a, conn)
	})
}

func (c pruneCmd) count(a *app, q *db.Queries) error {
	params := db.OperatePrunableParams{KeepSeconds: time.Duration(c.Keep).Seconds(), AtMost: countedTo}
	if c.KeepDiscarded > 0 {
		keep := time.Duration(c.KeepDiscarded).Seconds()
		params.KeepDiscardedSeconds = &keep
	}
	n, err := q.OperatePrunable(a.ctx, params)
	if err != nil {
		return err
	}
	err = a.print(prunable{true, n.Processed, n.Discarded}, func(t *table) {
		t.row("processed", capped(n.Processed, countedTo))
		t.row("discarded", capped(n.Discarded, countedTo))
	})
	if err != nil || c.DryRun || n.Processed+n.Discarded == 0 {
		return err
	}
	return fail(exitRefused, "this would delete them; nothing was changed\nTo do it, add --yes.")
}

// prune deletes in batches, each a transaction, so that breaking off costs nothing.
func (c pruneCmd) prune(a *app, conn *pgx.Conn) error {
	var total pruned
	progress := a.progress(often, "%d deleted")
	var failed error
	for {
		var n int
		failed = a.write(conn, func(tx pgx.Tx) (err error) {
			n, err = outbox.Prune(a.ctx, tx, time.Duration(c.Keep), time.Duration(c.KeepDiscarded), c.Batch)
			return err
		})
		if failed != nil || n == 0 {
			break
		}
		total.Deleted += n
		progress(total.Deleted)
	}
	total.Done = failed == nil
	return errors.Join(failed, a.print(total, func(t *table) { t.line("%d deleted", total.Deleted) }))
}
