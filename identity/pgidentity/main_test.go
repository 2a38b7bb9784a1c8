package pgidentity_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/identitytest"
	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// levels are all isolation levels that Postgres tells apart.
var levels = []string{"read committed", "repeatable read", "serializable"}

// isolation makes a level the default of the sessions that a store uses.
func isolation(level string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level }
}

// directory is a database with a store, whose sessions may differ from those of Pool, which looks and prepares.
type directory struct {
	*pgtest.DB
	*pgidentity.Store
	sessions *pgxpool.Pool
}

func newDirectory(t testing.TB, sessions ...func(*pgxpool.Config)) directory {
	t.Helper()
	database := pgtest.New(t)
	config, err := pgxpool.ParseConfig(database.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range sessions {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgidentity.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	return directory{database, store, pool}
}

// exec prepares something by plain SQL.
func (d directory) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := d.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// list reads one column of text.
func (d directory) list(t testing.TB, sql string, args ...any) []string {
	t.Helper()
	rows, err := d.Pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return texts
}

// counted is how many admins count, by the definition that the guard uses.
func (d directory) counted(t testing.TB) (n int) {
	t.Helper()
	if err := d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM public.identity_counted_admins`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// add creates an account with a token. Rights come by plain SQL, so that no admin is needed to give them.
func (d directory) add(t testing.TB, sort identitytest.Sort) identitytest.Account {
	t.Helper()
	kind := pgidentity.Human
	if sort == identitytest.MachineAdmin {
		kind = pgidentity.Machine
	}
	id, err := d.CreatePrincipal(t.Context(), pgidentity.Principal{Kind: kind, Name: "someone"})
	if err != nil {
		t.Fatal(err)
	}
	token, err := d.IssueToken(t.Context(), id, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	switch sort {
	case identitytest.HumanAdmin, identitytest.MachineAdmin:
		d.exec(t, `INSERT INTO public.identity_memberships (principal_id) VALUES ($1::uuid)`, id)
	case identitytest.Invited:
		d.exec(t, `INSERT INTO public.identity_invitations (hash, inviter_id, invitee_id, expires_at)
			SELECT sha256(uuid_send($1::uuid)), principal_id, $1::uuid, now() + interval '1 hour'
			FROM public.identity_counted_admins ORDER BY principal_id LIMIT 1`, id)
	}
	return identitytest.Account{ID: id, Token: token}
}

func (d directory) disable(t testing.TB, id uuid.UUID) {
	t.Helper()
	d.exec(t, `UPDATE public.identity_principals SET disabled_at = now() WHERE id = $1::uuid`, id)
}

func (d directory) enable(t testing.TB, id uuid.UUID) {
	t.Helper()
	d.exec(t, `UPDATE public.identity_principals SET disabled_at = NULL WHERE id = $1::uuid`, id)
}

func (d directory) audit(t testing.TB) (changes, refusals int) {
	t.Helper()
	const count = `SELECT (SELECT count(*) FROM public.identity_audit), (SELECT count(*) FROM public.identity_refusals)`
	if err := d.Pool.QueryRow(t.Context(), count).Scan(&changes, &refusals); err != nil {
		t.Fatal(err)
	}
	return changes, refusals
}

// empty takes everything out, past the triggers that forbid it.
func (d directory) empty(t testing.TB) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), d.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(context.Background(), `SET LOCAL session_replication_role = replica;
			DELETE FROM public.identity_principals; DELETE FROM public.identity_memberships;
			DELETE FROM public.identity_access_tokens; DELETE FROM public.identity_invitations;
			DELETE FROM public.identity_audit; DELETE FROM public.identity_refusals; DELETE FROM public.outbox_events`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
