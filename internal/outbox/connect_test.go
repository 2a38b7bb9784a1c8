package outbox

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/internal/pgtest/bouncer"
)

// dialer counts the connections that a configuration opens.
type dialer struct {
	mu         sync.Mutex
	open, most int
}

// countedConn tells its dialer when it is closed, once.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// into has the configuration's connections counted, in the way in which it opens them.
func (d *dialer) into(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		d.count(1)
		return &countedConn{conn, sync.OnceFunc(func() { d.count(-1) })}, nil
	}
}

func (d *dialer) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open += n
	d.most = max(d.most, d.open)
}

func (d *dialer) seen() (open, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open, d.most
}

// wait polls until so many are open.
func (d *dialer) wait(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if open, _ := d.seen(); open == n {
			return
		}
	}
	open, most := d.seen()
	t.Fatalf("%d connections are open, %d were; want %d", open, most, n)
}

// A worker has five connections when everything it does has to wait at once, and never more.
func TestWorkerUsesFiveConnections(t *testing.T) {
	r := newRig(t)
	r.insert("a", 1)
	d := &dialer{}
	handling, release := make(chan struct{}), make(chan struct{})
	w := r.run(testConfig("a"), d.into, func(context.Context, Claimed) Result {
		handling <- struct{}{}
		<-release
		return Result{Outcome: Processed}
	})
	r.until(`exists (select from public.outbox_workers)`)
	<-handling
	tx, err := r.db.Pool.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `lock table public.outbox_events, public.outbox_workers in access exclusive mode`)
	}
	if err != nil {
		t.Fatal(err)
	}
	close(release)
	d.wait(t, connections+1)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.done()
	// Before the worker stops: to cut calls off pgx connects once more, if only to say so.
	if _, most := d.seen(); most != connections+1 {
		t.Errorf("there were up to %d connections", most)
	}
	w.stop()
	d.wait(t, 0)
}

// A drain does one thing after another: on one connection.
func TestDrainUsesOneConnection(t *testing.T) {
	r := newRig(t)
	r.insert("a", 20)
	d := &dialer{}
	config := r.db.Pool.Config()
	d.into(config)
	if err := Drain(t.Context(), config, testConfig("a"), processed, func(Delivery) {}); err != nil {
		t.Fatal(err)
	}
	if open, most := d.seen(); open != 0 || most != 1 {
		t.Errorf("%d connections are left, there were up to %d", open, most)
	}
}

// Behind a pooler two more look for a moment what kind it is.
func TestTwoMoreConnectionsFindOutAboutAPooler(t *testing.T) {
	through := bouncer.Through(t, bouncer.Transaction)
	r := newRig(t, pgtest.PoolConfig(func(c *pgxpool.Config) {
		through(c)
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}))
	r.insert("a", 20)
	d := &dialer{}
	w := r.run(testConfig("a"), d.into, processed)
	r.done()
	if _, most := d.seen(); most < 3 || most > connections+3 {
		t.Errorf("there were up to %d connections", most)
	}
	w.stop()
	d.wait(t, 0)
}
