package pgidentity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identity/pgidentity"
	"github.com/openlup/pgrail/identitytest"
)

// obstruct has the first n removals end with a state, at once or, deferred, when they commit. A sequence counts, because
// what a transaction drew from it outlives the transaction.
func (d directory) obstruct(t *testing.T, state string, n int, when string) {
	t.Helper()
	d.exec(t, fmt.Sprintf(`CREATE SEQUENCE public.tries;
		CREATE FUNCTION public.obstruct() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('public.tries') <= %d THEN
				RAISE EXCEPTION USING ERRCODE = '%s', MESSAGE = 'in the way';
			END IF;
			RETURN NULL;
		END $$;
		CREATE CONSTRAINT TRIGGER obstruct AFTER UPDATE ON public.identity_memberships
			%s FOR EACH ROW EXECUTE FUNCTION public.obstruct()`, n, state, when))
}

func TestContentionIsRetried(t *testing.T) {
	for _, state := range []string{"40001", "40P01"} {
		for _, when := range []string{"NOT DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"} {
			t.Run(state+" "+when, func(t *testing.T) {
				c := newCast(t, newDirectory(t))
				c.obstruct(t, state, 15, when)
				if err := c.RevokeAdmin(t.Context(), c.admin.ID, c.other.ID, ""); err != nil {
					t.Errorf("RevokeAdmin: %v", err)
				}
				if tries, audit := c.tries(t), c.state(t)["audit"]; tries != 16 || len(audit) != 1 {
					t.Errorf("%d tries, audit %q: want 16 and one removal", tries, audit)
				}
			})
		}
	}
}

func (d directory) tries(t *testing.T) (n int) {
	t.Helper()
	if err := d.Pool.QueryRow(t.Context(), `SELECT last_value FROM public.tries`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestContentionThatLastsIsAnErrorOfItsOwn(t *testing.T) {
	c := newCast(t, newDirectory(t))
	c.obstruct(t, "40001", 1000, "NOT DEFERRABLE")
	err := c.RevokeAdmin(t.Context(), c.admin.ID, c.other.ID, "")
	var raw *pgconn.PgError
	if !errors.Is(err, pgidentity.ErrContention) || errors.As(err, &raw) || c.tries(t) != 16 {
		t.Errorf("after %d tries %v: want ErrContention after 16, without the server's error", c.tries(t), err)
	}
	if got := answer(t, err); got.Status != 500 || got.Code != "REVOKE_FAILED" {
		t.Errorf("answered %d %s: want 500 REVOKE_FAILED", got.Status, got.Code)
	}
}

func answer(t *testing.T, err error) identity.Answer {
	t.Helper()
	service, configErr := identity.New(identity.Config{Gateway: identitytest.Script{}, Logger: slog.New(slog.DiscardHandler)})
	if configErr != nil {
		t.Fatal(configErr)
	}
	return service.Failure(t.Context(), err)
}

func TestOtherErrorsAreNotRetried(t *testing.T) {
	c := newCast(t, newDirectory(t))
	c.obstruct(t, "55P03", 1000, "NOT DEFERRABLE")
	if err := c.RevokeAdmin(t.Context(), c.admin.ID, c.other.ID, ""); code(err) != "55P03" || c.tries(t) != 1 {
		t.Errorf("after %d tries %v: want 55P03 after 1", c.tries(t), err)
	}
}

func TestRetryingEndsWithTheContext(t *testing.T) {
	c := newCast(t, newDirectory(t))
	c.obstruct(t, "40001", 1000, "NOT DEFERRABLE")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := c.RevokeAdmin(ctx, c.admin.ID, c.other.ID, "")
	if !errors.Is(err, context.DeadlineExceeded) || c.counted(t) != 2 {
		t.Errorf("RevokeAdmin = %v, %d admins: want the context's error and 2", err, c.counted(t))
	}
}

// TestAWaitForALockIsBounded: the bound is 5 seconds (see TestFunctionsAreClosed); here it is shortened to save time.
func TestAWaitForALockIsBounded(t *testing.T) {
	c := newCast(t, newDirectory(t))
	c.exec(t, `ALTER FUNCTION public.identity_lock_admins() SET lock_timeout = '50ms'`)
	err := pgx.BeginFunc(t.Context(), c.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT public.identity_lock_admins()`); err != nil {
			return err
		}
		return c.RevokeAdmin(t.Context(), c.admin.ID, c.other.ID, "")
	})
	if code(err) != "55P03" || answer(t, err).Code != "REVOKE_FAILED" {
		t.Errorf("RevokeAdmin under a held lock = %v: want 55P03, answered as REVOKE_FAILED", err)
	}
}

// TestStrangersTakeNoLocks: a secret that nobody was sent neither waits for a removal nor holds one up.
func TestStrangersTakeNoLocks(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			c := newCast(t, newDirectory(t, isolation(level)))
			tx, err := c.sessions.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			if _, err := tx.Exec(t.Context(), `SELECT public.identity_accept('nobody knows')`); err != nil {
				t.Fatal(err)
			}
			const locked = `SELECT l.mode || ' ' || l.relation::regclass FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE a.datname = current_database() AND l.relation::regclass::text LIKE 'identity%'
					AND l.mode NOT IN ('AccessShareLock', 'SIReadLock') ORDER BY 1`
			if locks := c.list(t, locked); len(locks) > 0 {
				t.Errorf("holds %q", locks)
			}
			if err := c.RevokeAdmin(t.Context(), c.admin.ID, c.other.ID, ""); err != nil {
				t.Errorf("a removal beside it: %v", err)
			}
			if changes, refusals := c.audit(t); changes == 0 || refusals != 0 {
				t.Errorf("%d refusals are on record", refusals)
			}
		})
	}
}

// TestAnInvitationThatIsVoidedMeanwhile: whoever waited for a removal of the inviter sees what it did.
func TestAnInvitationThatIsVoidedMeanwhile(t *testing.T) {
	c := newCast(t, newDirectory(t))
	accepted := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), c.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT public.identity_revoke($1::uuid, $2::uuid)`, c.admin.ID, c.other.ID); err != nil {
			return err
		}
		go func() {
			_, err := c.AcceptInvitation(context.Background(), c.secretBy)
			accepted <- err
		}()
		return c.until(t, `EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.datname = current_database() AND NOT l.granted)`)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; code(err) != pgidentity.CodeInvitationInvalid {
		t.Errorf("AcceptInvitation = %v, want %s", err, pgidentity.CodeInvitationInvalid)
	}
}

// until polls a fact of the database.
func (d directory) until(t *testing.T, fact string) error {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var holds bool
		if err := d.Pool.QueryRow(t.Context(), `SELECT `+fact).Scan(&holds); err != nil || holds {
			return err
		}
	}
	return errors.New("waited in vain: " + fact)
}

// TestSignInsDoNotWaitForARemoval: the lock of a removal lets rows refer to its principals.
func TestSignInsDoNotWaitForARemoval(t *testing.T) {
	d := newDirectory(t)
	admin := d.add(t, identitytest.HumanAdmin)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := pgx.BeginFunc(ctx, d.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT public.identity_lock_admins()`); err != nil {
			return err
		}
		token, err := d.IssueToken(ctx, admin.ID, time.Hour)
		if err != nil {
			return err
		}
		if user, err := d.ResolveToken(ctx, token); err != nil || user != admin.ID {
			return fmt.Errorf("ResolveToken = %s, %w", user, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
