package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/openlup/pgrail/internal/db"
)

// The limits beyond which a figure becomes a finding.
const (
	oldestServer = 140000
	// manyDead is ten times what makes autovacuum look at the table.
	manyDead = 200_000
	// LongSnapshot is from when on a snapshot is held for long.
	LongSnapshot = 5 * time.Minute
	// clockLead is how far the newest stamp may be ahead of the clock: a large batch is stamped a microsecond apiece.
	clockLead = time.Second
	// hearing is how long a notification may take to arrive.
	hearing = 3 * time.Second
)

func (e Examination) server(ctx context.Context, q *db.Queries) (found []Finding, _ error) {
	s, err := q.DoctorServer(ctx)
	if err != nil {
		return nil, err
	}
	if s.Version < oldestServer {
		found = append(found, problem("upgrade the server to 14 or newer", "PostgreSQL %s is too old", s.VersionText))
	}
	if s.InRecovery {
		found = append(found, problem("connect to the primary", "a standby: it takes no writes"))
	}
	return found, nil
}

func (e Examination) vacuum(ctx context.Context, q *db.Queries) (found []Finding, _ error) {
	s, err := q.DoctorServer(ctx)
	if err != nil {
		return nil, err
	}
	t, err := q.DoctorVacuum(ctx)
	if err != nil {
		return nil, err
	}
	if s.Autovacuum != "on" || s.TrackCounts != "on" {
		found = append(found, problem("set autovacuum and track_counts to on in postgresql.conf", "autovacuum is off on this server"))
	}
	if t.SwitchedOff {
		found = append(found, problem("run in psql: ALTER TABLE public.outbox_events RESET (autovacuum_enabled)", "autovacuum is off for outbox_events"))
	}
	if t.Dead > manyDead {
		found = append(found, warning("see the finding on snapshots; else run in psql: VACUUM public.outbox_events",
			"outbox_events has %d dead rows beside %d live ones, %s", t.Dead, t.Live, vacuumed(t.VacuumedSeconds)))
	}
	return found, nil
}

func vacuumed(seconds float64) string {
	if seconds < 0 {
		return "and was never vacuumed"
	}
	return fmt.Sprintf("vacuumed %v ago", time.Duration(seconds)*time.Second)
}
