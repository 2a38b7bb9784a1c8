package main

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
)

type redriveCmd struct {
	selection
	DiscardReason string `placeholder:"REASON" help:"Select events that were discarded for this: max_attempts, permanent_error, undecodable, crashed, operator or one of your own."`
	consent
}

// Validate is called by kong.
func (c redriveCmd) Validate() error {
	if err := c.selection.check(c.Type != "" || c.Aggregate != nil || c.DiscardReason != ""); err != nil {
		return err
	}
	return c.consent.check()
}

func (c redriveCmd) Run(a *app) error {
	return a.withConn(func(conn *pgx.Conn) error {
		if len(c.IDs) > 0 && !c.DryRun {
			return c.redrive(a, conn, c.ids())
		}
		events, err := c.selectFrom(a, db.New(conn))
		if err != nil {
			return err
		}
		if !c.Yes || c.DryRun {
			if len(events) == 0 {
				return c.none(a, "is discarded")
			}
			return a.showPreview(c.consent, "redrive", events)
		}
		return c.redrive(a, conn, idsOf(events))
	})
}

func (c redriveCmd) selectFrom(a *app, q *db.Queries) ([]selected, error) {
	params := db.OperateDiscardedParams{AtMost: int32(c.Limit), EventIds: texts(c.ids())}
	params.EventType, params.AggregateType, params.AggregateID = c.filter()
	if c.DiscardReason != "" {
		params.Reason = &c.DiscardReason
	}
	rows, err := q.OperateDiscarded(a.ctx, params)
	events := make([]selected, 0, len(rows))
	for _, row := range rows {
		events = append(events, toSelected(row))
	}
	return events, err
}

// toSelected is the one place where a row becomes an event of a dry run.
func toSelected(row db.OperateDiscardedRow) selected {
	return selected{
		EventID: row.ID, EventType: row.EventType, Aggregate: aggregate{row.AggregateType, row.AggregateID}.String(),
		Reason: row.Reason, AgeSeconds: seconds(inSeconds(row.AgeSeconds)),
	}
}

func (c redriveCmd) redrive(a *app, conn *pgx.Conn, ids []uuid.UUID) error {
	return a.inPortions(ids, string(outbox.Redriven), func(some []uuid.UUID) (done []outcome, err error) {
		err = a.write(conn, func(tx pgx.Tx) error {
			became, err := outbox.Redrive(a.ctx, tx, who(c.By), c.Reason, some...)
			for _, id := range some {
				done = append(done, outcome{id, string(became[id])})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		return done, nil
	})
}

func idsOf(events []selected) []uuid.UUID {
	ids := make([]uuid.UUID, len(events))
	for i, e := range events {
		ids[i] = e.EventID
	}
	return ids
}

func texts(ids []uuid.UUID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = id.String()
	}
	return all
}
