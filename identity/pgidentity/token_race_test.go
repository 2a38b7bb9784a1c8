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

// TestATokenBeingIssuedDoesNotOutliveARemoval has a removal start while a token of its target is not committed yet. The
// account is enabled at the end, for a token that a disabling missed would come to life then.
func TestATokenBeingIssuedDoesNotOutliveARemoval(t *testing.T) {
	removals := map[string]func(d directory, actor, target uuid.UUID) error{
		"revoke":  func(d directory, a, b uuid.UUID) error { return d.RevokeAdmin(context.Background(), a, b, "") },
		"disable": func(d directory, a, b uuid.UUID) error { return d.DisablePrincipal(context.Background(), a, b, "") },
	}
	for _, level := range levels {
		d := newDirectory(t, isolation(level))
		for name, remove := range removals {
			for sort, kind := range map[identitytest.Sort]string{identitytest.HumanAdmin: "human", identitytest.MachineAdmin: "machine"} {
				t.Run(level+" "+name+" "+kind, func(t *testing.T) {
					d.empty(t)
					actor, target := d.add(t, identitytest.HumanAdmin).ID, d.add(t, sort).ID
					err := d.beside(t, `SELECT public.identity_issue_token($1::uuid, sha256('beside'), 3600)`, []any{target},
						func() error { return remove(d, actor, target) })
					if err != nil {
						t.Fatal(err)
					}
					d.enable(t, target)
					if got := d.list(t, `SELECT public.identity_authenticate(sha256('beside'))::text`); len(got) != 0 {
						t.Errorf("the token still signs in %s: want nobody", got)
					}
				})
			}
		}
	}
}

func TestNoTokenIsIssuedBesideADisabling(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDirectory(t, isolation(level))
			actor, target := d.add(t, identitytest.HumanAdmin).ID, d.add(t, identitytest.HumanAdmin).ID
			err := d.beside(t, `SELECT public.identity_disable($1::uuid, $2::uuid)`, []any{actor, target}, func() error {
				_, err := d.IssueToken(context.Background(), target, time.Hour)
				return err
			})
			if code(err) != pgidentity.CodePrincipalDisabled {
				t.Errorf("IssueToken: %v, want %s", err, pgidentity.CodePrincipalDisabled)
			}
		})
	}
}

// beside makes the call while a transaction with the statement is open. It commits once the call waits for it or, if the
// call does not wait, once that is over.
func (d directory) beside(t *testing.T, statement string, args []any, call func() error) error {
	t.Helper()
	result := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), d.sessions, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), statement, args...); err != nil {
			return err
		}
		over := make(chan struct{})
		go func() {
			result <- call()
			close(over)
		}()
		return d.untilBlocked(t, tx.Conn().PgConn().PID(), over)
	})
	if err != nil {
		t.Fatal(err)
	}
	return <-result
}

// untilBlocked returns once a session waits for the one with the process id, or nothing can come to wait any more.
func (d directory) untilBlocked(t *testing.T, pid uint32, over <-chan struct{}) error {
	t.Helper()
	const ask = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid)))`
	for blocked := false; !blocked; {
		select {
		case <-over:
			return nil
		default:
		}
		if err := d.Pool.QueryRow(t.Context(), ask, int32(pid)).Scan(&blocked); err != nil {
			return err
		}
	}
	return nil
}
