package pgidentity_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identitytest"
)

// hasty is a gateway that goes past the functions: its revoke is a statement of plain SQL.
type hasty struct {
	directory
	statement string
}

func (h hasty) AdminRole(context.Context, uuid.UUID) (string, error) { return "admin", nil }

func (h hasty) RevokeAdmin(_ context.Context, _, target uuid.UUID, _ string) error {
	return h.sql(h.statement, target)
}

// TestPlainSQLCannotRemoveTheLastHuman is cases I3 and I5: two disabled humans, three machines and someone invited do not
// count, and whatever statement takes the only one who does is answered as the functions' refusal would be.
func TestPlainSQLCannotRemoveTheLastHuman(t *testing.T) {
	statements := []string{
		`UPDATE public.identity_memberships SET ended_at = now() WHERE principal_id = $1`,
		`UPDATE public.identity_memberships SET ended_at = 'infinity' WHERE $1::uuid IS NOT NULL AND ended_at IS NULL`,
		`DELETE FROM public.identity_memberships WHERE principal_id = $1`,
		`DELETE FROM public.identity_memberships WHERE $1::uuid IS NOT NULL`,
		`UPDATE public.identity_principals SET disabled_at = now() WHERE id = $1`,
		`UPDATE public.identity_principals SET kind = 'machine' WHERE id = $1`,
		`INSERT INTO public.identity_principals (id, kind, name) VALUES ($1, 'human', 'x')
			ON CONFLICT (id) DO UPDATE SET disabled_at = now()`,
		`DELETE FROM public.identity_principals WHERE id = $1`,
		`DELETE FROM public.identity_principals WHERE $1::uuid IS NOT NULL`,
	}
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDirectory(t, isolation(level))
			last := d.add(t, identitytest.HumanAdmin)
			for range 2 {
				d.disable(t, d.add(t, identitytest.HumanAdmin).ID)
			}
			caller := d.add(t, identitytest.Invited)
			for range 3 {
				d.add(t, identitytest.MachineAdmin)
			}
			for _, statement := range statements {
				service, err := identity.New(identity.Config{Gateway: hasty{d, statement}, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				got := service.RemoveAdmin(t.Context(), identity.Request{AccessToken: caller.Token, UserID: last.ID.String()})
				if got.Status != 409 || got.Code != "LAST_ACTIVE_HUMAN_ADMIN" || d.counted(t) != 1 {
					t.Errorf("%s: %d %s, cause %v, %d admins: want 409 LAST_ACTIVE_HUMAN_ADMIN and 1", statement, got.Status, got.Code, got.Cause, d.counted(t))
				}
			}
		})
	}
}

// TestOneStatementCannotRemoveEveryone: each row alone would be fine.
func TestOneStatementCannotRemoveEveryone(t *testing.T) {
	statements := []string{
		`UPDATE public.identity_memberships SET ended_at = now()`,
		`DELETE FROM public.identity_memberships`,
		`UPDATE public.identity_principals SET disabled_at = now()`,
		`DELETE FROM public.identity_principals`,
		`WITH one AS (UPDATE public.identity_memberships SET ended_at = now() WHERE id = (SELECT min(id::text)::uuid FROM public.identity_memberships) RETURNING principal_id)
			UPDATE public.identity_principals p SET disabled_at = now() WHERE p.id NOT IN (SELECT principal_id FROM one)`,
		`TRUNCATE public.identity_memberships`,
		`TRUNCATE public.identity_principals CASCADE`,
	}
	d := newDirectory(t)
	for range 3 {
		d.add(t, identitytest.HumanAdmin)
	}
	for _, statement := range statements {
		if _, err := d.Pool.Exec(t.Context(), statement); code(err) != "ID002" || d.counted(t) != 3 {
			t.Errorf("%s: %v, %d admins: want ID002 and 3", statement, err, d.counted(t))
		}
	}
}

func TestPlainSQLMayRemoveWhoDoesNotCount(t *testing.T) {
	d := newDirectory(t)
	last := d.add(t, identitytest.HumanAdmin)
	disabled := d.add(t, identitytest.HumanAdmin)
	d.disable(t, disabled.ID)
	machine := d.add(t, identitytest.MachineAdmin)
	d.exec(t, `UPDATE public.identity_memberships SET ended_at = now() WHERE principal_id = $1`, disabled.ID)
	d.exec(t, `DELETE FROM public.identity_principals WHERE id = $1`, machine.ID)
	d.exec(t, `UPDATE public.identity_principals SET name = 'renamed', kind = 'human', disabled_at = NULL WHERE id = $1`, last.ID)
	if n := d.counted(t); n != 1 {
		t.Errorf("%d admins: want 1", n)
	}
}

func TestRecordsAreFixed(t *testing.T) {
	d := newDirectory(t)
	a, b := d.add(t, identitytest.HumanAdmin), d.add(t, identitytest.HumanAdmin)
	if err := d.RevokeAdmin(t.Context(), a.ID, b.ID, ""); err != nil {
		t.Fatal(err)
	}
	d.exec(t, `INSERT INTO public.identity_refusals (refusal, path, at) VALUES ('old', 'x', now() - interval '91 days'), ('new', 'x', now() - interval '89 days')`)
	want := map[string]string{
		`UPDATE public.identity_memberships SET ended_at = NULL WHERE ended_at IS NOT NULL`: "ID021",
		`UPDATE public.identity_memberships SET principal_id = '` + b.ID.String() + `'`:     "ID021",
		`UPDATE public.identity_memberships SET id = gen_random_uuid()`:                     "ID021",
		`UPDATE public.identity_audit SET reason = 'x'`:                                     "ID020",
		`DELETE FROM public.identity_audit`:                                                 "ID020",
		`TRUNCATE public.identity_audit`:                                                    "ID020",
		`UPDATE public.identity_refusals SET reason = 'x'`:                                  "ID020",
		`DELETE FROM public.identity_refusals`:                                              "ID020",
		`TRUNCATE public.identity_refusals`:                                                 "ID020",
		`DELETE FROM public.identity_refusals WHERE refusal = 'old'`:                        "",
	}
	got := map[string]string{}
	for statement := range want {
		_, err := d.Pool.Exec(t.Context(), statement)
		got[statement] = code(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("SQLSTATE (-want +got):\n%s", diff)
	}
}

// TestFunctionsAreClosed: no function is open to everyone, and none can be led astray by a search path.
func TestFunctionsAreClosed(t *testing.T) {
	d := newDirectory(t)
	const open = `SELECT p.proname::text FROM pg_catalog.pg_proc p
		WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'identity\_%'
			AND (p.proacl IS NULL OR EXISTS (SELECT FROM pg_catalog.aclexplode(p.proacl) a WHERE a.grantee = 0)
				OR NOT coalesce(p.proconfig @> '{"search_path=pg_catalog, pg_temp"}', false))`
	if got := d.list(t, open); len(got) > 0 {
		t.Errorf("open or without a search path: %q", got)
	}
	const all = `SELECT p.proname::text FROM pg_catalog.pg_proc p
		WHERE p.pronamespace = 'public'::regnamespace AND p.prosrc LIKE '%identity_lock_admins()%'
			AND p.prorettype <> 'trigger'::regtype AND NOT p.proconfig @> '{lock_timeout=5s}'`
	if got := d.list(t, all); len(got) > 0 {
		t.Errorf("wait for locks without a bound: %q", got)
	}
}
