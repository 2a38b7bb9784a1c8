package pgidentity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/identitytest"
)

// TestRefusalsOfTheStore: each says what is wrong and stands on record once (case I12).
func TestRefusalsOfTheStore(t *testing.T) {
	d := newDirectory(t)
	admin, machine, human := d.add(t, identitytest.HumanAdmin), d.add(t, identitytest.MachineAdmin), d.add(t, identitytest.Human)
	disabled, plainMachine, stranger := d.add(t, identitytest.Human), d.add(t, identitytest.MachineAdmin), uuid.New()
	d.disable(t, disabled.ID)
	d.exec(t, `UPDATE public.identity_memberships SET ended_at = now() WHERE principal_id = $1`, plainMachine.ID)
	secret, err := d.Invite(t.Context(), admin.ID, human.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	d.exec(t, `UPDATE public.identity_invitations SET expires_at = clock_timestamp()`)
	grant := func(actor, target uuid.UUID) error { return d.GrantAdmin(t.Context(), actor, target, "why") }
	invite := func(actor, target uuid.UUID) error {
		_, err := d.Invite(t.Context(), actor, target, time.Hour)
		return err
	}
	issue := func(target uuid.UUID) error { _, err := d.IssueToken(t.Context(), target, time.Hour); return err }
	accept := func(secret string) error { _, err := d.AcceptInvitation(t.Context(), secret); return err }
	disable := func(actor, target uuid.UUID) error { return d.DisablePrincipal(t.Context(), actor, target, "why") }
	tests := []struct {
		name   string
		err    error
		code   string
		record string
	}{
		{"bootstrap again", d.BootstrapAdmin(t.Context(), human.ID), "ALREADY_BOOTSTRAPPED", "bootstrap already_bootstrapped"},
		{"grant by nobody", grant(stranger, human.ID), "forbidden", "grant forbidden"},
		{"grant by a machine", grant(machine.ID, human.ID), "forbidden", "grant forbidden"},
		{"grant to nobody", grant(admin.ID, stranger), "PRINCIPAL_NOT_FOUND", "grant principal_not_found"},
		{"grant to a disabled one", grant(admin.ID, disabled.ID), "PRINCIPAL_DISABLED", "grant principal_disabled"},
		{"grant twice", grant(admin.ID, admin.ID), "ALREADY_ADMIN", "grant already_admin"},
		{"invite by a user", invite(human.ID, human.ID), "forbidden", "invite forbidden"},
		{"invite nobody", invite(admin.ID, stranger), "PRINCIPAL_NOT_FOUND", "invite principal_not_found"},
		{"invite a machine", invite(admin.ID, plainMachine.ID), "HUMAN_REQUIRED", "invite human_required"},
		{"invite an admin", invite(admin.ID, admin.ID), "ALREADY_ADMIN", "invite already_admin"},
		{"accept too late", accept(secret), "INVITATION_INVALID", "invitation invitation_invalid"},
		{"accept the unknown", accept("unknown"), "INVITATION_INVALID", ""},
		{"token for nobody", issue(stranger), "PRINCIPAL_NOT_FOUND", "token principal_not_found"},
		{"token for a disabled one", issue(disabled.ID), "PRINCIPAL_DISABLED", "token principal_disabled"},
		{"disable by a machine", disable(machine.ID, admin.ID), "machine_actor_revoke_forbidden", "disable machine_actor_revoke_forbidden"},
		{"disable nobody", disable(admin.ID, stranger), "PRINCIPAL_NOT_FOUND", "disable principal_not_found"},
		{"disable twice", disable(admin.ID, disabled.ID), "PRINCIPAL_DISABLED", "disable principal_disabled"},
		{"disable the last admin", disable(admin.ID, admin.ID), "last_active_human_admin", "disable last_active_human_admin"},
	}
	var want []string
	for _, test := range tests {
		if got := code(test.err); got != test.code {
			t.Errorf("%s: %v, want %s", test.name, test.err, test.code)
		}
		if test.record != "" {
			want = append(want, test.record)
		}
	}
	got := d.list(t, `SELECT path || ' ' || refusal FROM public.identity_refusals ORDER BY at`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

func TestARefusalOnRecordSaysWhoWhomAndWhy(t *testing.T) {
	d := newDirectory(t)
	admin, human := d.add(t, identitytest.HumanAdmin), d.add(t, identitytest.Human)
	_ = d.RevokeAdmin(t.Context(), human.ID, admin.ID, "spite")
	if err := d.RecordRefusal(t.Context(), human.ID, uuid.Nil, "", "USER_ID_REQUIRED"); err != nil {
		t.Fatal(err)
	}
	got := d.list(t, `SELECT concat_ws(' ', path, refusal, actor_id = $1::uuid, coalesce(target_id = $2::uuid, false), reason)
		FROM public.identity_refusals ORDER BY at`, human.ID, admin.ID)
	if diff := cmp.Diff([]string{"gateway forbidden t t spite", "request USER_ID_REQUIRED t f"}, got); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

// TestSQLStatesAndTokensAgree: the table in Go and the one in SQL name each refusal alike.
func TestSQLStatesAndTokensAgree(t *testing.T) {
	d := newDirectory(t)
	service, err := identity.New(identity.Config{Gateway: d.Store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{identity.TokenLastActiveHumanAdmin, identity.TokenLastAdminLockout, identity.TokenSelfRevokeForbidden,
		identity.TokenMachineForbidden, identity.TokenTargetNotFound, identity.TokenTargetNotActive, identity.TokenForbidden} {
		want := service.Failure(t.Context(), &identity.RevokeError{Token: token}).Code
		_, raised := d.Pool.Exec(t.Context(), `SELECT public.identity_require($1::text)`, token)
		_, plain := d.Pool.Exec(t.Context(), `DO $$ BEGIN RAISE EXCEPTION '`+token+`'; END $$`)
		if a, b := service.Failure(t.Context(), raised).Code, service.Failure(t.Context(), plain).Code; a != want || b != want {
			t.Errorf("%s: %s by SQLSTATE (%v), %s by message (%v): want %s", token, a, raised, b, plain, want)
		}
		_, repeated := d.Pool.Exec(t.Context(), `SELECT '`+token+`'::uuid`)
		if got := service.Failure(t.Context(), repeated).Code; got != "REVOKE_FAILED" {
			t.Errorf("%v: %s, want REVOKE_FAILED", repeated, got)
		}
	}
}

// TestRevokeForCallersInSQL raises what the functions for Go answer.
func TestRevokeForCallersInSQL(t *testing.T) {
	d := newDirectory(t)
	admin, other, machine, human := d.add(t, identitytest.HumanAdmin), d.add(t, identitytest.HumanAdmin), d.add(t, identitytest.MachineAdmin), d.add(t, identitytest.Human)
	tests := []struct {
		name          string
		actor, target uuid.UUID
		state         string
	}{
		{"forbidden goes first", human.ID, human.ID, "ID007"},
		{"machine", machine.ID, admin.ID, "ID004"},
		{"self before unknown", admin.ID, admin.ID, "ID003"},
		{"unknown", admin.ID, uuid.New(), "ID005"},
		{"no rights", admin.ID, human.ID, "ID006"},
		{"done", admin.ID, other.ID, ""},
		{"done already", admin.ID, other.ID, "ID006"},
	}
	for _, test := range tests {
		_, err := d.Pool.Exec(t.Context(), `SELECT public.identity_revoke_admin($1::uuid, $2::uuid)`, test.actor, test.target)
		if code(err) != test.state {
			t.Errorf("%s: %v, want %q", test.name, err, test.state)
		}
	}
}

// TestServerDown is case I10: the client learns nothing of where the database is, the log all of it.
func TestServerDown(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "host=/nowhere/secrethost user=secretuser dbname=secretdb")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := pgidentity.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		gateway identity.Gateway
		code    string
	}{
		"from the beginning": {store, "IDENTITY_ACTION_FAILED"},
		"before the revoke":  {downLater{identitytest.Script{User: uuid.New(), Role: "admin"}, store}, "REVOKE_FAILED"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			service, err := identity.New(identity.Config{Gateway: test.gateway, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			got := service.RemoveAdmin(t.Context(), identity.Request{AccessToken: "secrettoken", UserID: uuid.NewString()})
			if got.Status != 500 || got.Code != test.code || strings.Contains(got.Error, "secret") {
				t.Errorf("answer %+v: want 500 %s without a secret", got, test.code)
			}
			for _, part := range []string{got.Reference, "secrethost", "secretuser", "secretdb"} {
				if !strings.Contains(log.String(), part) {
					t.Errorf("log lacks %q: %s", part, log.String())
				}
			}
			if strings.Contains(log.String(), "secrettoken") {
				t.Errorf("log holds the token: %s", log.String())
			}
		})
	}
}

// downLater is a gateway whose server fails after the checks.
type downLater struct {
	identitytest.Script
	store *pgidentity.Store
}

func (d downLater) RevokeAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error {
	return d.store.RevokeAdmin(ctx, actor, target, reason)
}

func TestArgumentsAreCheckedBeforeTheDatabaseIsAsked(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "host=/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	store, err := pgidentity.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	principal := func(p pgidentity.Principal) error { _, err := store.CreatePrincipal(t.Context(), p); return err }
	invite := func(ttl time.Duration) error {
		_, err := store.Invite(t.Context(), uuid.Nil, uuid.Nil, ttl)
		return err
	}
	issue := func(ttl time.Duration) error { _, err := store.IssueToken(t.Context(), uuid.Nil, ttl); return err }
	_, noDatabase := pgidentity.New(nil)
	_, nilDatabase := pgidentity.New((*pgxpool.Pool)(nil))
	tests := []struct {
		err   error
		field string
	}{
		{noDatabase, "database"}, {nilDatabase, "database"},
		{principal(pgidentity.Principal{Name: "x"}), "Principal.Kind"},
		{principal(pgidentity.Principal{Kind: "robot", Name: "x"}), "Principal.Kind"},
		{principal(pgidentity.Principal{Kind: pgidentity.Human}), "Principal.Name"},
		{principal(pgidentity.Principal{Kind: pgidentity.Human, Name: " \t"}), "Principal.Name"},
		{principal(pgidentity.Principal{Kind: pgidentity.Human, Name: "a\x00"}), "Principal.Name"},
		{principal(pgidentity.Principal{Kind: pgidentity.Human, Name: "a\xff"}), "Principal.Name"},
		{principal(pgidentity.Principal{Kind: pgidentity.Human, Name: strings.Repeat("ö", 201)}), "Principal.Name"},
		{invite(0), "ttl"}, {invite(-time.Second), "ttl"}, {invite(1500 * time.Millisecond), "ttl"},
		{issue(366*24*time.Hour + time.Second), "ttl"},
	}
	for i, test := range tests {
		var refused *pgidentity.ArgumentError
		if !errors.As(test.err, &refused) || refused.Field != test.field {
			t.Errorf("%d: %v, want an ArgumentError for %s", i, test.err, test.field)
		}
	}
}
