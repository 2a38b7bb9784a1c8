package pgidentity_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/identitytest"
)

var removals = map[string]struct {
	call      func(s *pgidentity.Store, actor, target uuid.UUID) error
	statement string
}{
	"revoke": {func(s *pgidentity.Store, a, b uuid.UUID) error { return s.RevokeAdmin(context.Background(), a, b, "") },
		`SELECT public.identity_revoke($1::uuid, $2::uuid)`},
	"disable": {func(s *pgidentity.Store, a, b uuid.UUID) error {
		return s.DisablePrincipal(context.Background(), a, b, "")
	},
		`SELECT public.identity_disable($1::uuid, $2::uuid)`},
}

// besideARemoval runs a test for each removal, sort of target and isolation level.
func besideARemoval(t *testing.T, test func(t *testing.T, d directory, removal string, actor, target uuid.UUID)) {
	for _, level := range levels {
		d := newDirectory(t, isolation(level))
		for name := range removals {
			for sort, kind := range map[identitytest.Sort]string{identitytest.HumanAdmin: "human", identitytest.MachineAdmin: "machine"} {
				t.Run(level+" "+name+" "+kind, func(t *testing.T) {
					d.empty(t)
					test(t, d, name, d.add(t, identitytest.HumanAdmin).ID, d.add(t, sort).ID)
				})
			}
		}
	}
}

// open executes a statement and makes a call before it commits. The server may end the transaction at SERIALIZABLE.
func (d directory) open(t *testing.T, statement string, args []any, call func() error) (ended bool) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), d.sessions, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), statement, args...); err != nil {
			return err
		}
		return call()
	})
	if ended = code(err) == "40001"; err != nil && !ended {
		t.Fatal(err)
	}
	return ended
}

// TestATokenBeingIssuedDoesNotOutliveARemoval enables the account at the end, for a token that a disabling missed would
// come to life then.
func TestATokenBeingIssuedDoesNotOutliveARemoval(t *testing.T) {
	besideARemoval(t, func(t *testing.T, d directory, removal string, actor, target uuid.UUID) {
		d.open(t, `SELECT public.identity_issue_token($1::uuid, sha256('beside'), 3600)`, []any{target},
			func() error { return removals[removal].call(d.Store, actor, target) })
		d.enable(t, target)
		if got := d.list(t, `SELECT public.identity_authenticate(sha256('beside'))::text`); len(got) != 0 {
			t.Errorf("the token still signs in %s: want nobody", got)
		}
	})
}

// TestATokenIssuedDuringARemovalDoesNotOutliveIt is the other order: the removal is the one not committed yet.
func TestATokenIssuedDuringARemovalDoesNotOutliveIt(t *testing.T) {
	besideARemoval(t, func(t *testing.T, d directory, removal string, actor, target uuid.UUID) {
		var token string
		ended := d.open(t, removals[removal].statement, []any{actor, target}, func() (err error) {
			token, err = d.IssueToken(t.Context(), target, time.Hour)
			return err
		})
		if ended {
			if err := removals[removal].call(d.Store, actor, target); err != nil {
				t.Fatal(err)
			}
		}
		d.enable(t, target)
		if user, err := d.ResolveToken(t.Context(), token); user != uuid.Nil || err != nil {
			t.Errorf("the token still signs in %s, %v: want nobody", user, err)
		}
		if again, err := d.IssueToken(t.Context(), target, time.Hour); err != nil {
			t.Errorf("a token issued afterwards: %v", err)
		} else if user, err := d.ResolveToken(t.Context(), again); user != target || err != nil {
			t.Errorf("a token issued afterwards signs in %s, %v: want %s", user, err, target)
		}
	})
}
