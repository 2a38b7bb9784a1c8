package main

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
)

// sources are those that were asked for, or all.
func (c pruneCmd) sources(a *app, q *db.Queries) ([]string, error) {
	switch {
	case c.KeepInbox == nil:
		return nil, nil
	case len(c.Source) > 0:
		return c.Source, nil
	}
	return q.OperateInboxSources(a.ctx)
}

func (c pruneCmd) countInbox(a *app, q *db.Queries) (total int64, err error) {
	sources, err := c.sources(a, q)
	for _, source := range sources {
		n, err := q.OperateInboxPrunable(a.ctx, db.OperateInboxPrunableParams{
			Source: source, KeepSeconds: time.Duration(*c.KeepInbox).Seconds(), AtMost: countedTo,
		})
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, err
}

// forget deletes the records of webhooks, one source after the other.
func (c pruneCmd) forget(a *app, conn *pgx.Conn, done func(int)) error {
	sources, err := c.sources(a, db.New(conn))
	for _, source := range sources {
		params := db.WebhookInboxPruneParams{
			Source: source, KeepSeconds: time.Duration(*c.KeepInbox).Seconds(), AtMost: int32(c.Batch),
		}
		err := c.each(a, conn, func(tx pgx.Tx) (int, error) {
			n, err := db.New(tx).WebhookInboxPrune(a.ctx, params)
			return int(n), err
		}, done)
		if err != nil {
			return err
		}
	}
	return err
}
