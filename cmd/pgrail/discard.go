package main

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
)

type discardCmd struct {
	selection
	Status *string `enum:"pending,failed,processing" placeholder:"STATUS" help:"Select events that are pending, failed or processing."`
	consent
}

// Validate is called by kong.
func (c discardCmd) Validate() error {
	if err := c.selection.check(c.Type != "" || c.Aggregate != nil || c.Status != nil); err != nil {
		return err
	}
	return c.consent.check()
}

func (c discardCmd) Run(a *app) error {
	return a.withConn(func(conn *pgx.Conn) error {
		events, err := c.selectFrom(a, db.New(conn))
		if err != nil {
			return err
		}
		if !c.Yes || c.DryRun {
			if len(events) == 0 {
				return c.none(a, "waits")
			}
			return a.showPreview(c.consent, "discard", events)
		}
		ids := idsOf(events)
		if len(c.IDs) > 0 {
			ids = c.ids() // each is answered for
		}
		return c.discard(a, conn, ids)
	})
}

func (c discardCmd) selectFrom(a *app, q *db.Queries) ([]selected, error) {
	params := db.OperateActiveParams{AtMost: int32(c.Limit), EventIds: texts(c.ids())}
	params.EventType, params.AggregateType, params.AggregateID = c.filter()
	params.Reason = c.Status
	rows, err := q.OperateActive(a.ctx, params)
	events := make([]selected, 0, len(rows))
	for _, row := range rows {
		event := toSelected(db.OperateDiscardedRow(row))
		event.Status, event.Reason = event.Reason, ""
		events = append(events, event)
	}
	return events, err
}

func (c discardCmd) discard(a *app, conn *pgx.Conn, ids []uuid.UUID) error {
	return a.inPortions(ids, "discarded", func(some []uuid.UUID) (done []outcome, err error) {
		err = a.write(conn, func(tx pgx.Tx) error {
			rows, err := db.New(tx).OperateDiscard(a.ctx, db.OperateDiscardParams{EventIds: texts(some), ByWhom: who(c.By), Reason: c.Reason})
			for _, row := range rows {
				done = append(done, outcome{row.EventID, row.Outcome})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		return done, nil
	})
}
