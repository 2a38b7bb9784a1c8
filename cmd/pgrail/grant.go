package main

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/db"
)

type grantCmd struct {
	Kind string `arg:"" enum:"producer,worker,operator,identity,inbox" help:"What the role is to do: producer, worker, operator, identity or inbox."`
	Role string `arg:"" help:"The role's name, as in pg_roles. It must exist; it may be granted several kinds."`
}

type granted struct {
	Kind   string  `json:"kind"`
	Role   string  `json:"role"`
	Rights []right `json:"rights"`
}

type right struct {
	Privilege string `json:"privilege"`
	On        string `json:"on"`
}

func (c grantCmd) Run(a *app) error {
	return a.withConn(func(conn *pgx.Conn) error {
		done := granted{Kind: c.Kind, Role: c.Role}
		err := a.write(conn, func(tx pgx.Tx) error {
			q := db.New(tx)
			if err := q.OperateGrant(a.ctx, db.OperateGrantParams{Kind: c.Kind, RoleName: c.Role}); err != nil {
				return c.explain(err)
			}
			rows, err := q.OperateRights(a.ctx, db.OperateRightsParams{Kind: c.Kind})
			for _, r := range rows {
				done.Rights = append(done.Rights, right{r.Privilege, strings.ToLower(r.ObjectKind) + " " + r.Object})
			}
			return err
		})
		if err != nil {
			return err
		}
		return a.print(done, done.show)
	})
}

func (c grantCmd) explain(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	switch pgErr.Code {
	case "42704":
		return fail(exitNotFound, "there is no role %q\nIn psql: CREATE ROLE ... LOGIN PASSWORD ...", c.Role)
	case "42501":
		return fail(exitForbidden, "only the owner of the schema can grant its rights\nConnect as the role that ran: pgrail migrate up")
	}
	return err
}

func (g granted) show(t *table) {
	t.line("Role %s has the rights of the kind %s now:", g.Role, g.Kind)
	for _, r := range g.Rights {
		t.row(r.Privilege, r.On)
	}
}
