package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/openlup/pgrail/internal/db"
)

// oldestServer is PostgreSQL 14.
const oldestServer = 140000

func (e Examination) server(ctx context.Context, q *db.Queries) ([]Finding, error) {
	s, err := q.DoctorServer(ctx)
	return serverFindings(s), err
}

func serverFindings(s db.DoctorServerRow) (found []Finding) {
	if s.Version < oldestServer {
		found = append(found, problem("upgrade the server to 14 or newer", "PostgreSQL %s is too old", s.VersionText))
	}
	if s.InRecovery {
		found = append(found, problem("connect to the primary", "a standby: it takes no writes"))
	}
	return found
}

func (e Examination) vacuum(ctx context.Context, q *db.Queries) ([]Finding, error) {
	s, err := q.DoctorServer(ctx)
	if err != nil {
		return nil, err
	}
	t, err := q.DoctorVacuum(ctx)
	if err != nil {
		return nil, err
	}
	return e.vacuumFindings(s, t), nil
}

func (e Examination) vacuumFindings(s db.DoctorServerRow, t db.DoctorVacuumRow) (found []Finding) {
	if s.Autovacuum != "on" || s.TrackCounts != "on" {
		found = append(found, problem("set autovacuum and track_counts to on in postgresql.conf", "autovacuum is off on this server"))
	}
	if t.SwitchedOff {
		found = append(found, problem("run in psql: ALTER TABLE public.outbox_events RESET (autovacuum_enabled)", "autovacuum is off for outbox_events"))
	}
	if t.Dead > e.Limits.DeadRows {
		found = append(found, warning("see the finding on snapshots; else run in psql: VACUUM public.outbox_events",
			"outbox_events has %d dead rows beside %d live ones, %s", t.Dead, t.Live, vacuumed(t.VacuumedSeconds)))
	}
	return found
}

func vacuumed(seconds float64) string {
	if seconds < 0 {
		return "and was never vacuumed"
	}
	return fmt.Sprintf("vacuumed %v ago", time.Duration(seconds)*time.Second)
}
