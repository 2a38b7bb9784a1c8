package main

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
)

type pruneCmd struct {
	Keep          *days    `placeholder:"DURATION" help:"Delete events that were processed longer ago than this, such as 30d. Within it, duplicates are recognised."`
	KeepDiscarded days     `placeholder:"DURATION" help:"Delete discarded events that were written longer ago than this. Without it they stay."`
	KeepInbox     *days    `placeholder:"DURATION" help:"Forget webhooks that were received longer ago than this, such as 30d. Delivered again, they count as new."`
	Source        []string `placeholder:"NAME" sep:"none" help:"Forget webhooks of these sources only. It may be given several times."`
	Batch         int      `default:"1000" help:"Delete so many of each kind at once, from 1 to 10000."`
	Yes           bool     `help:"Do it. Without this, the command counts, and refuses."`
	DryRun        bool     `help:"Count, and do nothing."`
}

// countedTo bounds what a dry run counts.
const countedTo = 1_000_000

type pruned struct {
	Deleted   int  `json:"deleted"`
	Forgotten int  `json:"forgotten"` // webhooks
	Done      bool `json:"done"`      // false when broken off
}

type prunable struct {
	DryRun    bool  `json:"dry_run"`
	Processed int64 `json:"processed"`
	Discarded int64 `json:"discarded"`
	Webhooks  int64 `json:"webhooks"`
}

// Validate is called by kong.
func (c pruneCmd) Validate() error {
	switch {
	case c.Keep == nil && c.KeepInbox == nil:
		return fail(exitUse, "--keep or --keep-inbox is needed: how long is what to be kept?")
	case c.Batch < 1 || c.Batch > 10000:
		return fail(exitUse, "--batch must be 1 to 10000")
	case c.KeepDiscarded < 0:
		return fail(exitUse, "--keep-discarded must be more than 0")
	case c.KeepDiscarded > 0 && c.Keep == nil:
		return fail(exitUse, "--keep-discarded takes --keep beside it")
	case len(c.Source) > 0 && c.KeepInbox == nil:
		return fail(exitUse, "--source takes --keep-inbox beside it")
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
	found := prunable{DryRun: true}
	if c.Keep != nil {
		params := db.OperatePrunableParams{KeepSeconds: time.Duration(*c.Keep).Seconds(), AtMost: countedTo}
		if c.KeepDiscarded > 0 {
			keep := time.Duration(c.KeepDiscarded).Seconds()
			params.KeepDiscardedSeconds = &keep
		}
		n, err := q.OperatePrunable(a.ctx, params)
		if err != nil {
			return err
		}
		found.Processed, found.Discarded = n.Processed, n.Discarded
	}
	var err error
	if found.Webhooks, err = c.countInbox(a, q); err != nil {
		return err
	}
	err = a.print(found, func(t *table) {
		if c.Keep != nil {
			t.row("processed", capped(found.Processed, countedTo))
			t.row("discarded", capped(found.Discarded, countedTo))
		}
		if c.KeepInbox != nil {
			t.row("webhooks", capped(found.Webhooks, countedTo))
		}
	})
	if err != nil || c.DryRun || found.Processed+found.Discarded+found.Webhooks == 0 {
		return err
	}
	return fail(exitRefused, "this would delete them; nothing was changed\nTo do it, add --yes.")
}

// prune deletes in batches, each a transaction, so that breaking off costs nothing.
func (c pruneCmd) prune(a *app, conn *pgx.Conn) error {
	var total pruned
	progress := a.progress(often, "%d deleted")
	failed := c.each(a, conn, func(tx pgx.Tx) (int, error) {
		if c.Keep == nil {
			return 0, nil
		}
		return outbox.Prune(a.ctx, tx, time.Duration(*c.Keep), time.Duration(c.KeepDiscarded), c.Batch)
	}, func(n int) { total.Deleted += n; progress(total.Deleted) })
	if failed == nil {
		failed = c.forget(a, conn, func(n int) { total.Forgotten += n; progress(total.Deleted + total.Forgotten) })
	}
	total.Done = failed == nil
	return errors.Join(failed, a.print(total, func(t *table) {
		if c.Keep != nil {
			t.line("%d events deleted", total.Deleted)
		}
		if c.KeepInbox != nil {
			t.line("%d webhooks forgotten", total.Forgotten)
		}
	}))
}

// each repeats what deletes a batch until there is none left.
func (c pruneCmd) each(a *app, conn *pgx.Conn, batch func(pgx.Tx) (int, error), done func(int)) error {
	for {
		var n int
		err := a.write(conn, func(tx pgx.Tx) (err error) {
			n, err = batch(tx)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
		done(n)
	}
}
