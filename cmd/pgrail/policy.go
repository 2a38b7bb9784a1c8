package main

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
)

type policyCmd struct {
	Set    policySetCmd    `cmd:"" help:"Write the policy of an event type, in place of an earlier one."`
	Remove policyRemoveCmd `cmd:"" help:"Leave a type to the workers' configuration again."`
	List   policyListCmd   `cmd:"" help:"List policies."`
}

type policySetCmd struct {
	Type        string `arg:"" help:"The event type."`
	MaxAttempts int    `placeholder:"N" help:"Discard an event after so many failures, from 1 to 20. Without it, the workers' setting counts."`
	MaxSnoozes  int    `placeholder:"N" help:"Discard an event after so many snoozes, from 1 to 100000. Without it, the workers' setting counts."`
	OnDiscard   string `enum:"continue,halt" default:"continue" help:"What a discarded event does to the later ones of its aggregate: continue or halt."`
}

type policyRemoveCmd struct {
	Type string `arg:"" help:"The event type."`
}

type policyListCmd struct{}

type policyRow struct {
	EventType   string `json:"event_type"`
	MaxAttempts int32  `json:"max_attempts"`
	MaxSnoozes  int32  `json:"max_snoozes"`
	OnDiscard   string `json:"on_discard"`
}

// Validate is called by kong.
func (c policySetCmd) Validate() error {
	if c.MaxAttempts < 0 || c.MaxAttempts > 20 {
		return fail(exitUse, "--max-attempts must be 1 to 20")
	}
	if c.MaxSnoozes < 0 || c.MaxSnoozes > 100000 {
		return fail(exitUse, "--max-snoozes must be 1 to 100000")
	}
	return notBlank("TYPE", c.Type)
}

func (c policySetCmd) Run(a *app) error {
	return a.withConn(func(conn *pgx.Conn) error {
		err := a.write(conn, func(tx pgx.Tx) error {
			return outbox.SetPolicy(a.ctx, tx, outbox.Policy{
				EventType: c.Type, MaxAttempts: c.MaxAttempts, MaxSnoozes: c.MaxSnoozes, OnDiscard: outbox.OnDiscard(c.OnDiscard),
			})
		})
		if err != nil {
			return err
		}
		done := changed{c.Type, "policy set"}
		return a.print(done, done.show)
	})
}

func (c policyRemoveCmd) Run(a *app) error {
	return a.change(changed{c.Type, "policy removed"}, func(q *db.Queries) (int64, error) {
		return q.OperateRemovePolicy(a.ctx, db.OperateRemovePolicyParams{EventType: c.Type})
	})
}

func (policyListCmd) Run(a *app) error {
	return a.withQueries(func(q *db.Queries) error {
		rows, err := q.OperatePolicies(a.ctx)
		if err != nil {
			return err
		}
		policies := make([]policyRow, 0, len(rows))
		for _, row := range rows {
			policies = append(policies, policyRow(row))
		}
		return a.print(policies, func(t *table) {
			if len(policies) == 0 {
				t.line("No type has a policy.")
				return
			}
			t.row("TYPE", "MAX ATTEMPTS", "MAX SNOOZES", "ON DISCARD")
			for _, p := range policies {
				t.row(p.EventType, orDash(p.MaxAttempts > 0, fmt.Sprint(p.MaxAttempts)), orDash(p.MaxSnoozes > 0, fmt.Sprint(p.MaxSnoozes)), p.OnDiscard)
			}
		})
	})
}
