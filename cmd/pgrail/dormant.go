package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
)

type dormantCmd struct {
	Add    dormantAddCmd    `cmd:"" help:"Make an event type dormant: its events hold up nothing of other types."`
	Remove dormantRemoveCmd `cmd:"" help:"End that: its events hold up younger ones of their aggregates again."`
	List   dormantListCmd   `cmd:"" help:"List dormant types, with whose they are and why."`
}

type dormantAddCmd struct {
	Type   string `arg:"" help:"The event type."`
	Owner  string `required:"" help:"Whose it is: who is going to handle it."`
	Reason string `required:"" help:"Why nobody handles it."`
}

type dormantRemoveCmd struct {
	Type string `arg:"" help:"The event type."`
}

type dormantListCmd struct{}

type dormantType struct {
	EventType string    `json:"event_type"`
	Owner     string    `json:"owner"`
	Reason    string    `json:"reason"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// changed is the result of a command that makes one small change.
type changed struct {
	EventType string `json:"event_type"`
	Done      string `json:"done"`
}

func (c changed) show(t *table) { t.line("%s: %s", c.EventType, c.Done) }

func notBlank(flag, value string) error {
	if strings.TrimSpace(value) == "" {
		return fail(exitUse, "%s must not be blank", flag)
	}
	return nil
}

// Validate is called by kong.
func (c dormantAddCmd) Validate() error {
	return cmp.Or(notBlank("TYPE", c.Type), notBlank("--owner", c.Owner), notBlank("--reason", c.Reason))
}

func (c dormantAddCmd) Run(a *app) error {
	return a.change(changed{c.Type, "dormant"}, func(q *db.Queries) (int64, error) {
		return 1, q.OperateAddDormantType(a.ctx, db.OperateAddDormantTypeParams{EventType: c.Type, Owner: c.Owner, Reason: c.Reason})
	})
}

func (c dormantRemoveCmd) Run(a *app) error {
	return a.change(changed{c.Type, "not dormant any more"}, func(q *db.Queries) (int64, error) {
		return q.OperateRemoveDormantType(a.ctx, db.OperateRemoveDormantTypeParams{EventType: c.Type})
	})
}

// change makes one small change; f returns 0 when there was nothing to change.
func (a *app) change(done changed, f func(*db.Queries) (int64, error)) error {
	return a.withConn(func(conn *pgx.Conn) error {
		var n int64
		err := a.write(conn, func(tx pgx.Tx) (err error) {
			n, err = f(db.New(tx))
			return err
		})
		if err == nil && n == 0 {
			return fail(exitNotFound, "%s is not listed", done.EventType)
		}
		if err != nil {
			return err
		}
		return a.print(done, done.show)
	})
}

func (dormantListCmd) Run(a *app) error {
	return a.withQueries(func(q *db.Queries) error {
		rows, err := q.OperateDormantTypes(a.ctx)
		if err != nil {
			return err
		}
		types := make([]dormantType, 0, len(rows))
		for _, row := range rows {
			row.CreatedAt, row.UpdatedAt = row.CreatedAt.UTC(), row.UpdatedAt.UTC()
			types = append(types, dormantType(row))
		}
		return a.print(types, func(t *table) {
			if len(types) == 0 {
				t.line("No type is dormant.")
				return
			}
			t.row("TYPE", "OWNER", "SINCE", "REASON")
			for _, d := range types {
				t.row(d.EventType, d.Owner, d.CreatedAt.Format(time.DateOnly), d.Reason)
			}
		})
	})
}
