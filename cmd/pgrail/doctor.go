package main

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/operate"
)

type doctorCmd struct {
	Table tableName `default:"${migrations_table}" help:"Where the applied migrations are recorded, as schema.table."`
	Deep  bool      `help:"Also compare the rail's marks with the events, which reads all that are active."`

	LongSnapshot days  `default:"5m" help:"Report transactions that last longer than this."`
	DeadRows     int64 `default:"200000" help:"Report more dead rows than this in the table of events; autovacuum looks at it from 20000 on."`
}

type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

func (c doctorCmd) Run(a *app) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	return a.withConn(func(conn *pgx.Conn) error {
		e, err := migrateCmd{Table: c.Table}.examination(a, conn)
		if err != nil {
			return err
		}
		e.Config, e.Deep = config, c.Deep
		e.Limits = operate.Limits{DeadRows: c.DeadRows, Snapshot: time.Duration(c.LongSnapshot)}
		return examine(a, e)
	})
}

// examine prints what an examination finds; problems make the exit status.
func examine(a *app, e operate.Examination) error {
	found, err := e.Run(a.ctx)
	if err != nil {
		return err
	}
	all := make([]finding, 0, len(found))
	problems := 0
	for _, f := range found {
		all = append(all, finding{f.Check, string(f.State), f.Text, f.Advice})
		if f.State == operate.Problem {
			problems++
		}
	}
	if err := a.print(all, func(t *table) { showFindings(all, t) }); err != nil {
		return err
	}
	if problems > 0 {
		return fail(exitFindings, "%s", counted(problems, "problem"))
	}
	return nil
}

func showFindings(all []finding, t *table) {
	t.row("CHECK", "STATE", "FINDING")
	for _, f := range all {
		t.row(f.Check, f.State, f.Text)
		if f.Advice != "" {
			t.row("", "", "-> "+f.Advice)
		}
	}
}
