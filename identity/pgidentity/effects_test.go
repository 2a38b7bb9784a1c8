package pgidentity_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/identitytest"
)

// cast is an admin, another one who is about to lose its rights, and what hangs on those.
type cast struct {
	directory
	admin, other       identitytest.Account
	secretTo, secretBy string // invitations to a newcomer: by the admin, by the other
}

func newCast(t *testing.T, d directory) cast {
	t.Helper()
	c := cast{directory: d, admin: d.add(t, identitytest.HumanAdmin), other: d.add(t, identitytest.HumanAdmin)}
	newcomer := d.add(t, identitytest.Human)
	c.secretTo, c.secretBy = c.invite(t, c.admin, newcomer), c.invite(t, c.other, newcomer)
	c.exec(t, `INSERT INTO public.identity_invitations (hash, inviter_id, invitee_id, expires_at)
		VALUES (sha256('x'), $1::uuid, $2::uuid, now() + interval '1 hour')`, c.admin.ID, c.other.ID)
	return c
}

func (c cast) invite(t *testing.T, inviter, invitee identitytest.Account) string {
	t.Helper()
	secret, err := c.Invite(t.Context(), inviter.ID, invitee.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// state is everything that a removal changes, with names in the place of ids.
func (c cast) state(t *testing.T) map[string][]string {
	t.Helper()
	const name = `CASE %s WHEN $1::uuid THEN 'admin' WHEN $2::uuid THEN 'other' ELSE 'newcomer' END`
	column := func(column string) string { return fmt.Sprintf(name, column) }
	read := func(sql string) []string { return c.list(t, sql, c.admin.ID, c.other.ID) }
	return map[string][]string{
		"rights": read(`SELECT ` + column("principal_id") + ` FROM public.identity_admins ORDER BY 1`),
		"tokens": read(`SELECT ` + column("principal_id") + ` FROM public.identity_access_tokens WHERE ended_at IS NULL ORDER BY 1`),
		"invitations": read(`SELECT ` + column("inviter_id") + ` || ' to ' || ` + column("invitee_id") + `
			FROM public.identity_invitations WHERE accepted_at IS NULL AND voided_at IS NULL ORDER BY 1`),
		"audit": read(`SELECT concat_ws(' ', action, path, CASE WHEN actor_id IS NOT NULL THEN ` + column("actor_id") + ` ELSE 'nobody' END,
			` + column("target_id") + `, reason) FROM public.identity_audit WHERE action NOT IN ('grant', 'invite') ORDER BY at`),
		"events": read(`SELECT concat_ws(' ', e.event_type, e.aggregate_type, ` + column("e.aggregate_id") + `, e.payload ->> 'path',
				CASE WHEN e.payload ->> 'actorId' = $1::text THEN 'admin' ELSE 'nobody' END, e.payload ->> 'userId' = $2::text)
			FROM public.outbox_events e`),
	}
}

func untouched() map[string][]string {
	return map[string][]string{
		"rights": {"admin", "other"}, "tokens": {"admin", "newcomer", "other"},
		"invitations": {"admin to newcomer", "admin to other", "other to newcomer"},
		"audit":       {}, "events": {},
	}
}

func removed(audit, event string) map[string][]string {
	return map[string][]string{
		"rights": {"admin"}, "tokens": {"admin", "newcomer"}, "invitations": {"admin to newcomer"},
		"audit": {audit}, "events": {event},
	}
}

// TestWhatARemovalDoes holds for every way to remove, plain SQL too.
func TestWhatARemovalDoes(t *testing.T) {
	d := newDirectory(t)
	sql := func(statement string) func(c cast) error {
		return func(c cast) error { return c.sql(statement, c.other.ID) }
	}
	tests := []struct {
		name         string
		remove       func(c cast) error
		audit, event string
	}{
		{"gateway", func(c cast) error { return c.RevokeAdmin(context.Background(), c.admin.ID, c.other.ID, "left\x00 us") },
			"revoke gateway admin other left us", "identity.admin.revoked identity.admin other gateway admin t"},
		{"store", func(c cast) error { return c.RemoveAdmin(context.Background(), c.admin.ID, c.other.ID, "") },
			"revoke invitations admin other", "identity.admin.revoked identity.admin other invitations admin t"},
		{"SQL update", sql(`UPDATE public.identity_memberships SET ended_at = now() WHERE principal_id = $1`),
			"revoke sql nobody other", "identity.admin.revoked identity.admin other sql nobody t"},
		{"SQL delete", sql(`DELETE FROM public.identity_memberships WHERE principal_id = $1`),
			"revoke sql nobody other", "identity.admin.revoked identity.admin other sql nobody t"},
		{"SQL delete of the principal", sql(`DELETE FROM public.identity_principals WHERE id = $1`),
			"revoke sql nobody other", "identity.admin.revoked identity.admin other sql nobody t"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d.empty(t)
			c := newCast(t, d)
			if diff := cmp.Diff(untouched(), c.state(t)); diff != "" {
				t.Fatalf("before (-want +got):\n%s", diff)
			}
			if err := test.remove(c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(removed(test.audit, test.event), c.state(t)); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDisablingEndsAccessAndKeepsRights(t *testing.T) {
	c := newCast(t, newDirectory(t))
	if err := c.DisablePrincipal(t.Context(), c.admin.ID, c.other.ID, "on leave"); err != nil {
		t.Fatal(err)
	}
	want := removed("disable disable admin other on leave", "")
	want["rights"], want["events"] = []string{"admin", "other"}, []string{}
	if diff := cmp.Diff(want, c.state(t)); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	if n := c.counted(t); n != 1 {
		t.Errorf("%d admins count: want 1", n)
	}
	c.enable(t, c.other.ID)
	if n := c.counted(t); n != 2 {
		t.Errorf("after enabling %d admins count: want 2", n)
	}
}

// TestEnablingIsNotAuditedAsTheDisablersDeed covers the next disabling too, which plain SQL does without a name.
func TestEnablingIsNotAuditedAsTheDisablersDeed(t *testing.T) {
	c := newCast(t, newDirectory(t))
	if err := c.DisablePrincipal(t.Context(), c.admin.ID, c.other.ID, "on leave"); err != nil {
		t.Fatal(err)
	}
	c.enable(t, c.other.ID)
	c.disable(t, c.other.ID)
	want := []string{"disable disable admin other on leave", "enable sql nobody other", "disable sql nobody other"}
	if diff := cmp.Diff(want, c.state(t)["audit"]); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// TestARemovedAdminHasNoWayBack is case I6.
func TestARemovedAdminHasNoWayBack(t *testing.T) {
	c := newCast(t, newDirectory(t))
	if err := c.RevokeAdmin(t.Context(), c.admin.ID, c.other.ID, ""); err != nil {
		t.Fatal(err)
	}
	if user, err := c.ResolveToken(t.Context(), c.other.Token); user != uuid.Nil || err != nil {
		t.Errorf("its token resolves to %s, %v: want nobody", user, err)
	}
	if _, err := c.AcceptInvitation(t.Context(), c.secretBy); code(err) != pgidentity.CodeInvitationInvalid {
		t.Errorf("its invitation: %v, want %s", err, pgidentity.CodeInvitationInvalid)
	}
	if _, err := c.AcceptInvitation(t.Context(), c.secretTo); err != nil {
		t.Errorf("the other admin's invitation: %v", err)
	}
}

func TestTheStoreWithdrawsInvitations(t *testing.T) {
	c := newCast(t, newDirectory(t))
	newcomer := c.list(t, `SELECT DISTINCT invitee_id::text FROM public.identity_invitations WHERE invitee_id <> $1::uuid`, c.other.ID)
	id := uuid.MustParse(newcomer[0])
	if err := c.RemoveAdmin(t.Context(), c.admin.ID, id, "changed my mind"); err != nil {
		t.Fatal(err)
	}
	want := untouched()
	want["invitations"] = []string{"admin to other"}
	want["audit"] = []string{"withdraw invitations admin newcomer changed my mind"}
	if diff := cmp.Diff(want, c.state(t)); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	if err := c.RemoveAdmin(t.Context(), c.admin.ID, id, ""); code(err) != "target_not_active" {
		t.Errorf("again: %v, want target_not_active", err)
	}
}
