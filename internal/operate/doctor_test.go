package operate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/internal/operate"
	"github.com/openlup/pgrail/internal/pgtest"
)

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (b *box) examination() operate.Examination {
	b.Helper()
	schema, err := operate.ReadSchema(db.Migrations)
	if err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(b.Context(), b.sql.Config().ConnConfig)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	return operate.Examination{
		Config: conn.Config(), Conn: conn, Schema: schema, Applied: schema.Versions, Deep: true,
		Limits: operate.Limits{DeadRows: 200_000, Snapshot: time.Hour},
	}
}

// findings are those that are not ok, in one line each.
func (b *box) findings(e operate.Examination) (found []string) {
	b.Helper()
	all, err := e.Run(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range all {
		if f.State != operate.OK {
			found = append(found, fmt.Sprintf("%s %s: %s -> %s", f.State, f.Check, f.Text, f.Advice))
		}
	}
	return found
}

func TestDoctorFindsNothingWhereNothingIs(t *testing.T) {
	t.Parallel()
	b := newBox(t, pgtest.Hostile(), pgtest.Setting("datestyle", "ISO"))
	e := b.examination()
	all, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var checks []string
	for _, f := range all {
		checks = append(checks, f.Check)
		if f.State != operate.OK || f.Text == "" || f.Advice != "" {
			t.Errorf("%+v, want ok", f)
		}
	}
	want := "server schema functions indexes triggers vacuum snapshots listen clock roles marks"
	if got := strings.Join(checks, " "); got != want {
		t.Errorf("checks %s, want %s", got, want)
	}
}

// Each case breaks one thing and names the findings, of which each has to say what to do.
func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sabotage string
		want     []string
	}{
		"a replaced function": {
			`create or replace function public.outbox_stay_awake() returns void language sql as 'select'`,
			[]string{"problem functions: outbox_stay_awake is not the released one -> find out who replaced it, and create it again from db/migrations/0042_outbox_roles.sql"},
		},
		"a missing function": {
			`drop function public.outbox_stay_awake()`,
			[]string{
				"problem functions: outbox_stay_awake is missing -> create it again from db/migrations/0042_outbox_roles.sql",
			},
		},
		"an invalid index": {
			`update pg_catalog.pg_index set indisvalid = false where indexrelid = 'public.outbox_events_ready_idx'::regclass`,
			[]string{"problem indexes: outbox_events_ready_idx is not valid -> run in psql: REINDEX INDEX CONCURRENTLY public.outbox_events_ready_idx"},
		},
		"a missing index": {
			`drop index public.outbox_events_discarded_idx`,
			[]string{"problem indexes: outbox_events_discarded_idx is missing -> create it again from db/migrations/0001_outbox_tables.sql"},
		},
		"an index of somebody else": {
			`create index mine on public.outbox_events (payload);
			 update pg_catalog.pg_index set indisvalid = false where indexrelid = 'public.mine'::regclass`, nil,
		},
		"a disabled trigger": {
			`alter table public.outbox_events disable trigger outbox_events_wake`,
			[]string{"problem triggers: outbox_events_wake on outbox_events is disabled -> run in psql: ALTER TABLE public.outbox_events ENABLE TRIGGER outbox_events_wake; then run: pgrail doctor --deep"},
		},
		"a missing trigger": {
			`drop trigger outbox_events_wake on public.outbox_events`,
			[]string{"problem triggers: outbox_events_wake is missing -> create it again from db/migrations/0003_outbox_filing.sql"},
		},
		"no autovacuum of the table": {
			`alter table public.outbox_events set (autovacuum_enabled = false)`,
			[]string{"problem vacuum: autovacuum is off for outbox_events -> run in psql: ALTER TABLE public.outbox_events RESET (autovacuum_enabled)"},
		},
		"a clock that was set back": {
			`select setval('public.outbox_stamp_seq', (date_part('epoch', clock_timestamp()) * 1000000)::bigint + 3600000000)`,
			[]string{"warning clock: the newest event is stamped 59m5"},
		},
		"a function open to everyone": {
			`grant execute on function public.outbox_enqueue to public`,
			[]string{"problem roles: everyone may call outbox_enqueue -> run in psql: REVOKE EXECUTE ON FUNCTION public.outbox_enqueue FROM PUBLIC"},
		},
		"a row that triggers did not see": {
			`alter table public.outbox_events disable trigger user;
			 insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload) values ('a', gen_random_uuid(), 'a', 'a', '{}');
			 alter table public.outbox_events enable trigger user`,
			[]string{"warning marks: unfiled: 1 -> workers mend it within minutes; at once in psql: SELECT public.outbox_heal(100000)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.exec(c.sabotage)
			got := b.findings(b.examination())
			if len(got) != len(c.want) {
				t.Fatalf("found %q\nwant %q", got, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("found %s\nwant %s", got[i], c.want[i])
				}
			}
		})
	}
}

func (b *box) wantFindings(e operate.Examination, want ...string) {
	b.Helper()
	got := b.findings(e)
	matches := len(got) == len(want)
	for i := 0; matches && i < len(want); i++ {
		matches = strings.HasPrefix(got[i], want[i])
	}
	if !matches {
		b.Errorf("found %q\nwant %q", got, want)
	}
}

func TestDoctorTellsMigrations(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	e := b.examination()
	e.Applied = append(slices.Clone(e.Schema.Versions[:3]), "9999")
	e.Drift = errors.New("0001_x.sql was edited")
	b.wantFindings(e, fmt.Sprintf("problem schema: %d migrations are not applied, from 0004 on -> run: pgrail migrate up", len(e.Schema.Versions)-3),
		"warning schema: has migrations of a newer pgrail: 9999 -> use the command of the newer version",
		"problem schema: 0001_x.sql was edited -> find out who edited it")
}

func TestDoctorEndsWhereThereIsNoSchema(t *testing.T) {
	t.Parallel()
	b := newBox(t, pgtest.Empty())
	e := b.examination()
	e.Applied = nil
	b.wantFindings(e, "problem schema: ")
}

// An older schema lacks what some checks read; the others still count.
func TestDoctorChecksWhatThereIs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.exec(`drop function public.outbox_grantees()`)
	b.wantFindings(b.examination(), "problem functions: outbox_grantees is missing",
		"warning roles: cannot be checked with this schema -> run: pgrail migrate up")
}

// Notifications stay within a database, so listening in another one is as deaf as behind a transaction pooler.
func TestDoctorHearsThatItIsDeaf(t *testing.T) {
	t.Parallel()
	b, other := newBox(t), newBox(t, pgtest.Empty())
	e := b.examination()
	e.Config = other.sql.Config().ConnConfig
	e.Only = []string{"listen"}
	b.wantFindings(e, "warning listen: LISTEN hears nothing: is there a transaction pooler in between? -> give workers a direct connection")
}

func TestDoctorSeesOpenTransactions(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	conn := b.db.Connect(t)
	if _, err := conn.Exec(t.Context(), `set application_name = 'report'; begin isolation level repeatable read; select 1`); err != nil {
		t.Fatal(err)
	}
	e := b.examination()
	e.Limits.Snapshot = 0
	e.Only = []string{"snapshots"}
	role := value[string](b, `select current_user::text`)
	b.wantFindings(e, fmt.Sprintf(`warning snapshots: session %d (idle in transaction, role %q, application "report") has been in a transaction for`, conn.PgConn().PID(), role))
	e.Limits.Snapshot = time.Hour
	b.wantFindings(e)
}

func TestDoctorCountsDeadRows(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	conn := b.db.Connect(t)
	for _, sql := range []string{
		`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		 select 'a', gen_random_uuid(), 'a', g, '{}' from generate_series(1, 20) g`,
		`delete from public.outbox_events`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.Close(t.Context()) // a session reports its counts at its end at the latest
	b.eventually(`select n_dead_tup >= 20 from pg_stat_user_tables where relid = 'public.outbox_events'::regclass`)
	e := b.examination()
	e.Limits.DeadRows = 10
	b.wantFindings(e, "warning vacuum: outbox_events has 20 dead rows beside 0 live ones, and was never vacuumed -> see the finding on snapshots")
}

// eventually polls a fact until it holds.
func (b *box) eventually(fact string, args ...any) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for holds := false; !holds; <-tick.C {
		if err := b.sql.QueryRow(ctx, fact, args...).Scan(&holds); err != nil {
			b.Fatalf("%s: %v", fact, err)
		}
	}
}
