package pgidentity_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/identitytest"
)

// modes are the ways in which pgx can talk to a server; poolers need the last two.
var modes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}

// TestFromTheFirstAdminToTheList walks through every call that succeeds, in every mode of pgx.
func TestFromTheFirstAdminToTheList(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			d := newDirectory(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			first := d.create(t, pgidentity.Principal{ID: uuid.New(), Kind: pgidentity.Human, Name: strings.Repeat("ö", 200)})
			second := d.create(t, pgidentity.Principal{Kind: pgidentity.Machine, Name: "deployer"})
			third := d.create(t, pgidentity.Principal{Kind: pgidentity.Human, Name: "O'Hara \\ \"é\""})
			if err := d.BootstrapAdmin(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			if err := d.GrantAdmin(t.Context(), first, second, "deploys"); err != nil {
				t.Fatal(err)
			}
			secret, err := d.Invite(t.Context(), first, third, 366*24*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if invitee, err := d.AcceptInvitation(t.Context(), secret); err != nil || invitee != third {
				t.Fatalf("AcceptInvitation = %s, %v: want %s", invitee, err, third)
			}
			if err := d.DisablePrincipal(t.Context(), third, third, ""); err != nil {
				t.Fatal(err)
			}
			got, err := d.ListAdmins(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := []pgidentity.Admin{
				{ID: first, Name: strings.Repeat("ö", 200), Kind: pgidentity.Human, Path: "bootstrap"},
				{ID: second, Name: "deployer", Kind: pgidentity.Machine, GrantedBy: first, Path: "grant"},
				{ID: third, Name: "O'Hara \\ \"é\"", Kind: pgidentity.Human, Disabled: true, GrantedBy: first, Path: "invitation"},
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(pgidentity.Admin{}, "GrantedAt")); diff != "" {
				t.Errorf("ListAdmins (-want +got):\n%s", diff)
			}
			if at := got[0].GrantedAt; at.Location() != time.UTC || time.Since(at).Abs() > time.Minute {
				t.Errorf("granted at %s: want now in UTC", at)
			}
		})
	}
}

func (d directory) create(t *testing.T, p pgidentity.Principal) uuid.UUID {
	t.Helper()
	id, err := d.CreatePrincipal(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != uuid.Nil && id != p.ID {
		t.Fatalf("CreatePrincipal = %s: want the id given, %s", id, p.ID)
	}
	return id
}

func TestAnIDIsGivenOnce(t *testing.T) {
	d := newDirectory(t)
	p := pgidentity.Principal{ID: uuid.New(), Kind: pgidentity.Human, Name: "x"}
	d.create(t, p)
	if _, err := d.CreatePrincipal(t.Context(), p); code(err) != pgidentity.CodePrincipalExists {
		t.Errorf("again: %v, want %s", err, pgidentity.CodePrincipalExists)
	}
}

func TestATokenIsGoodUntilItEnds(t *testing.T) {
	d := newDirectory(t)
	user := d.add(t, identitytest.Human)
	tests := []struct {
		name string
		end  func()
		want uuid.UUID
	}{
		{"new", func() {}, user.ID},
		{"expired", func() { d.exec(t, `UPDATE public.identity_access_tokens SET expires_at = clock_timestamp()`) }, uuid.Nil},
		{"signed out", func() {
			if err := d.EndToken(t.Context(), user.Token); err != nil {
				t.Error(err)
			}
		}, uuid.Nil},
		{"disabled, the token forgotten", func() {
			d.disable(t, user.ID)
			d.exec(t, `UPDATE public.identity_access_tokens SET ended_at = NULL`)
		}, uuid.Nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var err error
			if user.Token, err = d.IssueToken(t.Context(), user.ID, time.Hour); err != nil {
				t.Fatal(err)
			}
			test.end()
			if got, err := d.ResolveToken(t.Context(), user.Token); got != test.want || err != nil {
				t.Errorf("ResolveToken = %s, %v: want %s", got, err, test.want)
			}
		})
	}
}

func TestSecretsAreKeptAsHashesAndExpiredOnesGo(t *testing.T) {
	d := newDirectory(t)
	user := d.add(t, identitytest.Human)
	d.exec(t, `UPDATE public.identity_access_tokens SET expires_at = clock_timestamp()`)
	token, err := d.IssueToken(t.Context(), user.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(token))
	got := d.list(t, `SELECT encode(hash, 'hex') FROM public.identity_access_tokens`)
	if diff := cmp.Diff([]string{hex.EncodeToString(sum[:])}, got); diff != "" {
		t.Errorf("kept tokens (-want +got):\n%s", diff)
	}
}
