package operate_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/internal/operate"
)

func TestServerFindings(t *testing.T) {
	t.Parallel()
	if found := operate.ServerFindings(db.DoctorServerRow{Version: 140000}); len(found) > 0 {
		t.Errorf("PostgreSQL 14: %v", found)
	}
	want := []operate.Finding{
		{State: operate.Problem, Text: "PostgreSQL 13.9 is too old", Advice: "upgrade the server to 14 or newer"},
		{State: operate.Problem, Text: "a standby: it takes no writes", Advice: "connect to the primary"},
	}
	if diff := cmp.Diff(want, operate.ServerFindings(db.DoctorServerRow{Version: 130009, VersionText: "13.9", InRecovery: true})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVacuumFindings(t *testing.T) {
	t.Parallel()
	e := operate.Examination{Limits: operate.Limits{DeadRows: 10}}
	on := db.DoctorServerRow{Autovacuum: "on", TrackCounts: "on"}
	if found := operate.VacuumFindings(e, on, db.DoctorVacuumRow{Dead: 10}); len(found) > 0 {
		t.Errorf("at the limit: %v", found)
	}
	for _, off := range []db.DoctorServerRow{{Autovacuum: "off", TrackCounts: "on"}, {Autovacuum: "on", TrackCounts: "off"}} {
		if found := operate.VacuumFindings(e, off, db.DoctorVacuumRow{}); len(found) != 1 || found[0].State != operate.Problem {
			t.Errorf("%+v: %v", off, found)
		}
	}
	want := "outbox_events has 11 dead rows beside 3 live ones, vacuumed 1m30s ago"
	if found := operate.VacuumFindings(e, on, db.DoctorVacuumRow{Dead: 11, Live: 3, VacuumedSeconds: 90.5}); len(found) != 1 || found[0].Text != want {
		t.Errorf("%v, want %s", found, want)
	}
}

func TestSnapshotFindings(t *testing.T) {
	t.Parallel()
	want := []operate.Finding{
		{State: operate.Warning, Text: `prepared transaction "gid" is 10m0s old`, Advice: "COMMIT PREPARED or ROLLBACK PREPARED it"},
		{State: operate.Warning, Text: `replication slot "standby" is inactive and keeps dead rows`, Advice: "start its consumer, or drop it with pg_drop_replication_slot"},
	}
	got := operate.SnapshotFindings([]db.DoctorSnapshotsRow{
		{Kind: "prepared transaction", Name: "gid", Seconds: 600.7}, {Kind: "replication slot", Name: "standby"},
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What cannot be checked is a finding; what broke the examination is an error.
func TestSoften(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"42501": "this role may not look", "25006": "cannot be checked on a standby", "42883": "cannot be checked with this schema",
		"42P01": "cannot be checked with this schema", "42703": "cannot be checked with this schema", "57014": "", "XX000": "",
	} {
		found, err := operate.Soften(nil, &pgconn.PgError{Code: state})
		if want == "" && err == nil || want != "" && (err != nil || len(found) != 1 || found[0].Text != want || found[0].Advice == "") {
			t.Errorf("%s: %v, %v; want %q", state, found, err, want)
		}
	}
	if _, err := operate.Soften(nil, errors.ErrUnsupported); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("another error: %v", err)
	}
}
