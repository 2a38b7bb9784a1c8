package main

import (
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox"
)

type resumeCmd struct {
	Aggregate aggregate `arg:"" placeholder:"TYPE/ID" help:"The halted aggregate, as TYPE/ID."`
}

type resumed struct {
	Aggregate string `json:"aggregate"`
	Resumed   bool   `json:"resumed"`
}

func (c resumeCmd) Run(a *app) error {
	return a.withConn(func(conn *pgx.Conn) error {
		done := resumed{Aggregate: c.Aggregate.String()}
		err := a.write(conn, func(tx pgx.Tx) (err error) {
			done.Resumed, err = outbox.Resume(a.ctx, tx, c.Aggregate.kind, c.Aggregate.id)
			return err
		})
		if err != nil {
			return err
		}
		if !done.Resumed {
			return fail(exitNotFound, "%s is not halted", c.Aggregate)
		}
		return a.print(done, func(t *table) { t.line("%s moves again", c.Aggregate) })
	})
}
