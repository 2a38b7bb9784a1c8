package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/db"
)

// State grades a finding.
type State string

// The grades: as it should be, to be looked at, to be mended.
const (
	OK      State = "ok"
	Warning State = "warning"
	Problem State = "problem"
)

// Finding is what one check found.
type Finding struct {
	Check  string
	State  State
	Text   string
	Advice string // what to do; empty when there is nothing
}

// Examination compares a database with what it should be.
type Examination struct {
	Config *pgx.ConnConfig // for the check of LISTEN, which needs connections of its own
	Conn   *pgx.Conn
	Schema Schema
	// Applied are the versions that the database records.
	Applied []string
	// Drift is not nil when an applied file is another one now.
	Drift  error
	Limits Limits
	// Only names the checks to make; empty for all.
	Only []string
	// Deep reads everything active to compare the rail's marks with it.
	Deep bool
}

// Limits are beyond what a figure becomes a finding.
type Limits struct {
	// DeadRows of the table of events; autovacuum looks at it from 20000 on.
	DeadRows int64
	// Snapshot is how long a transaction may last.
	Snapshot time.Duration
}

type check struct {
	name string
	// fine is said when nothing was found.
	fine string
	run  func(context.Context, *db.Queries) ([]Finding, error)
}

func (e Examination) checks() []check {
	all := []check{
		{"server", "takes writes, and its version is supported", e.server},
		{"schema", fmt.Sprintf("%d migrations, all applied", len(e.Schema.Versions)), e.versions},
		{"functions", "as released", e.functions},
		{"indexes", "all there and valid", e.indexes},
		{"triggers", "all there and enabled", e.triggers},
		{"vacuum", "on, and keeping up", e.vacuum},
		{"snapshots", "none is held for long", e.snapshots},
		{"listen", "notifications arrive", e.listen},
		{"clock", "not behind the newest event", e.clock},
		{"roles", "each has all rights of its kind, and everyone else none", e.roles},
	}
	if e.Deep {
		all = append(all, check{"marks", "the rail's marks agree with the events", e.marks})
	}
	return all
}

// Run makes all checks, in a fixed order, with at least one finding each. On a database without the schema it ends after
// saying so.
func (e Examination) Run(ctx context.Context) ([]Finding, error) {
	var all []Finding
	q := db.New(e.Conn)
	for _, c := range e.checks() {
		if len(e.Only) > 0 && !slices.Contains(e.Only, c.name) {
			continue
		}
		found, err := c.run(ctx, q)
		if found, err = soften(found, err); err != nil {
			return all, err
		}
		if len(found) == 0 {
			found = []Finding{{State: OK, Text: c.fine}}
		}
		for _, f := range found {
			f.Check = c.name
			all = append(all, f)
		}
		if c.name == "schema" && len(e.Applied) == 0 {
			break
		}
	}
	return all, nil
}

var mayNotLook = warning("connect as the owner, or run: pgrail grant operator ROLE", "this role may not look")

// soften turns what the role may not see, and what an older schema lacks, into a finding: the other checks still count.
func soften(found []Finding, err error) ([]Finding, error) {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return found, err
	}
	switch pgErr.Code {
	case "42501":
		return append(found, mayNotLook), nil
	case "25006":
		return append(found, warning("connect to the primary", "cannot be checked on a standby")), nil
	case "42883", "42P01", "42703":
		return append(found, warning("run: pgrail migrate up", "cannot be checked with this schema")), nil
	}
	return found, err
}
