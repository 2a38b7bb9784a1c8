package pgidentity_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// steps are where a removal can be stopped: before and after each row that it writes, and at its commit.
var steps = []string{
	`BEFORE UPDATE ON public.identity_memberships`,
	`AFTER UPDATE ON public.identity_memberships`,
	`BEFORE UPDATE ON public.identity_access_tokens`,
	`AFTER UPDATE ON public.identity_access_tokens`,
	`BEFORE UPDATE ON public.identity_invitations`,
	`AFTER UPDATE ON public.identity_invitations`,
	`BEFORE INSERT ON public.identity_audit`,
	`AFTER INSERT ON public.identity_audit`,
	`BEFORE INSERT ON public.outbox_events`,
	`AFTER INSERT ON public.outbox_events`,
}

// TestAKilledRemovalLeavesNothing stops a removal at each step, kills its server process there, and finds everything as
// it was; then the same removal, let through, does everything.
func TestAKilledRemovalLeavesNothing(t *testing.T) {
	d := newDirectory(t)
	d.exec(t, `CREATE FUNCTION public.halt() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock(4711);
			RETURN NEW;
		END $$`)
	atCommit := `CONSTRAINT TRIGGER halt AFTER INSERT ON public.outbox_events DEFERRABLE INITIALLY DEFERRED`
	for i, step := range append(steps, atCommit) {
		t.Run(step, func(t *testing.T) {
			d.empty(t)
			c := newCast(t, d)
			if i < len(steps) {
				step = "TRIGGER halt " + step
			}
			d.exec(t, `CREATE `+step+` FOR EACH ROW EXECUTE FUNCTION public.halt()`)
			err := c.killedWhenHalted(t)
			if err == nil {
				t.Error("RevokeAdmin succeeded although its connection was killed")
			}
			if diff := cmp.Diff(untouched(), c.state(t)); diff != "" {
				t.Errorf("after %v (-want +got):\n%s", err, diff)
			}
			d.exec(t, `DROP TRIGGER halt ON `+c.list(t, `SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'halt'`)[0])
			if err := c.RevokeAdmin(t.Context(), c.admin.ID, c.other.ID, ""); err != nil {
				t.Fatal(err)
			}
			want := removed("revoke gateway admin other", "identity.admin.revoked identity.admin other gateway admin t")
			if diff := cmp.Diff(want, c.state(t)); diff != "" {
				t.Errorf("after the second try (-want +got):\n%s", diff)
			}
		})
	}
}

// killedWhenHalted lets a removal run into the halt and kills its server process once it waits there.
func (c cast) killedWhenHalted(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	gate := c.Connect(t)
	if _, err := gate.Exec(ctx, `SELECT pg_advisory_lock(4711)`); err != nil {
		t.Fatal(err)
	}
	defer gate.Close(context.Background())
	failed := make(chan error, 1)
	go func() { failed <- c.RevokeAdmin(ctx, c.admin.ID, c.other.ID, "") }()
	const kill = `SELECT pg_terminate_backend(l.pid) FROM pg_locks l
		WHERE l.locktype = 'advisory' AND l.objid = 4711 AND NOT l.granted
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	for ctx.Err() == nil {
		var killed bool
		if err := gate.QueryRow(ctx, kill).Scan(&killed); !errors.Is(err, pgx.ErrNoRows) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	return <-failed
}

// TestACutConnectionIsAllOrNothing breaks the connection before each message of a removal goes out, and in the place of
// each answer: nothing has happened, or all of it, and after a lost answer to COMMIT a second try finds it done.
func TestACutConnectionIsAllOrNothing(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			var scissors scissors
			d := newDirectory(t, scissors.hold, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			for _, message := range []string{"begin", "identity_revoke", "commit"} {
				for _, after := range []bool{false, true} {
					d.empty(t)
					c := newCast(t, d)
					scissors.cut.Store(&cut{message: []byte(message), after: after})
					err := c.RevokeAdmin(t.Context(), c.admin.ID, c.other.ID, "")
					want := untouched()
					if message == "commit" && after {
						want = removed("revoke gateway admin other", "identity.admin.revoked identity.admin other gateway admin t")
					}
					if diff := cmp.Diff(want, c.state(t)); err == nil || scissors.cut.Load() != nil || diff != "" {
						t.Errorf("cut at %s, after it went out %t: error %v, state (-want +got):\n%s", message, after, err, diff)
					}
				}
			}
		})
	}
}

// scissors cut the next connection that sends the message.
type scissors struct{ cut atomic.Pointer[cut] }

type cut struct {
	message []byte
	after   bool // the server gets the message and acts on it, and the answer is lost
}

func (s *scissors) hold(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &cuttable{Conn: conn, scissors: s}, err
	}
}

type cuttable struct {
	net.Conn
	scissors *scissors
}

func (c *cuttable) Write(p []byte) (int, error) {
	cut := c.scissors.cut.Load()
	if cut == nil || !bytes.Contains(p, cut.message) {
		return c.Conn.Write(p)
	}
	c.scissors.cut.Store(nil)
	if cut.after {
		if err := c.swallowAnswer(p); err != nil {
			return 0, err
		}
	}
	return 0, errors.Join(fmt.Errorf("cut at %s", cut.message), c.Conn.Close())
}

// swallowAnswer sends p and waits for the first bytes of the answer, which prove that the server acted on it.
func (c *cuttable) swallowAnswer(p []byte) error {
	if _, err := c.Conn.Write(p); err != nil {
		return err
	}
	_, err := c.Conn.Read(make([]byte, 1))
	return err
}
