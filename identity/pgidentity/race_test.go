package pgidentity_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/identitytest"
)

// TestMutualRevokes is case I1 at its full length: 200 rounds at each isolation level leave exactly one admin each, and
// no error that the server made out of the race reaches the caller.
func TestMutualRevokes(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDirectory(t, isolation(level))
			winner := d.add(t, identitytest.HumanAdmin).ID
			for round := range 200 {
				other := d.add(t, identitytest.HumanAdmin).ID
				errs := together(
					func() error { return d.RevokeAdmin(t.Context(), winner, other, "first") },
					func() error { return d.RemoveAdmin(t.Context(), other, winner, "second") })
				if errs[0] != nil {
					winner, errs[0], errs[1] = other, errs[1], errs[0]
				}
				lost := &identity.RevokeError{Token: identity.TokenForbidden}
				if n := d.counted(t); n != 1 || errs[0] != nil || !errors.Is(errs[1], lost) {
					t.Fatalf("round %d: %d admins, errors %v: want 1, one success and one %v", round, n, errs, lost)
				}
			}
		})
	}
}

// together runs all at once and answers their errors in order.
func together(calls ...func() error) []error {
	var start, done sync.WaitGroup
	start.Add(1)
	errs := make([]error, len(calls))
	for i, call := range calls {
		done.Go(func() {
			start.Wait()
			errs[i] = call()
		})
	}
	start.Done()
	done.Wait()
	return errs
}

// TestNeverZeroByMixedPaths lets every way to lower the number run against every other, each aimed at another admin.
// Plain SQL may lose to a deadlock or a serialization failure: what counts is that somebody is left.
func TestNeverZeroByMixedPaths(t *testing.T) {
	paths := []func(d directory, actor, target uuid.UUID) error{
		func(d directory, a, b uuid.UUID) error { return d.RevokeAdmin(context.Background(), a, b, "") },
		func(d directory, a, b uuid.UUID) error { return d.RemoveAdmin(context.Background(), a, b, "") },
		func(d directory, a, b uuid.UUID) error { return d.DisablePrincipal(context.Background(), a, b, "") },
		func(d directory, a, _ uuid.UUID) error { return d.DisablePrincipal(context.Background(), a, a, "") },
		func(d directory, _, b uuid.UUID) error {
			return d.sql(`UPDATE public.identity_memberships SET ended_at = now() WHERE principal_id = $1`, b)
		},
		func(d directory, _, b uuid.UUID) error {
			return d.sql(`DELETE FROM public.identity_memberships WHERE principal_id = $1`, b)
		},
		func(d directory, _, b uuid.UUID) error {
			return d.sql(`DELETE FROM public.identity_principals WHERE id = $1`, b)
		},
		func(d directory, _, b uuid.UUID) error {
			return d.sql(`UPDATE public.identity_principals SET kind = 'machine' WHERE id = $1`, b)
		},
	}
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDirectory(t, isolation(level))
			for i, first := range paths {
				for j, second := range paths {
					d.empty(t)
					a, b := d.add(t, identitytest.HumanAdmin).ID, d.add(t, identitytest.HumanAdmin).ID
					errs := together(func() error { return first(d, a, b) }, func() error { return second(d, b, a) })
					if n := d.counted(t); n == 0 {
						t.Fatalf("paths %d and %d: nobody is left, errors %v", i, j, errs)
					}
				}
			}
		})
	}
}

// sql changes something on the store's own sessions, so at their isolation level.
func (d directory) sql(statement string, id uuid.UUID) error {
	_, err := d.sessions.Exec(context.Background(), statement, id)
	return err
}

func TestOnlyOneBootstrapWins(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDirectory(t, isolation(level))
			var calls []func() error
			for range 8 {
				id := d.add(t, identitytest.Human).ID
				calls = append(calls, func() error { return d.BootstrapAdmin(t.Context(), id) })
			}
			if diff := cmp.Diff(map[string]int{"": 1, pgidentity.CodeAlreadyBootstrapped: 7}, codes(together(calls...))); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			if n := d.counted(t); n != 1 {
				t.Errorf("%d admins: want 1", n)
			}
		})
	}
}

func TestAnInvitationIsTakenUpOnce(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDirectory(t, isolation(level))
			inviter, invitee := d.add(t, identitytest.HumanAdmin).ID, d.add(t, identitytest.Human).ID
			secret, err := d.Invite(t.Context(), inviter, invitee, 60e9)
			if err != nil {
				t.Fatal(err)
			}
			accept := func() error {
				got, err := d.AcceptInvitation(t.Context(), secret)
				if err == nil && got != invitee {
					err = fmt.Errorf("invitee %s: want %s", got, invitee)
				}
				return err
			}
			want := map[string]int{"": 1, pgidentity.CodeInvitationInvalid: 3}
			if diff := cmp.Diff(want, codes(together(accept, accept, accept, accept))); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

// codes counts errors by their code, token or text.
func codes(errs []error) map[string]int {
	count := map[string]int{}
	for _, err := range errs {
		count[code(err)]++
	}
	return count
}

func code(err error) string {
	var refused *identity.StoreError
	var revoke *identity.RevokeError
	var server *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Code
	case errors.As(err, &revoke) && revoke.Token != "":
		return revoke.Token
	case errors.As(err, &server):
		return server.Code
	}
	return err.Error()
}
