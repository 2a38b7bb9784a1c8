package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
	"github.com/openlup/pgrail/webhooktest"
)

// pool opens another one on the database.
func (h hook) pool(t *testing.T, address string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func unchanged(*pgxpool.Config) {}

// TestNobodyListens: the sender is told to come again, and neither it nor the log learns where the database should be.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	away := h.on(t, h.pool(t, "postgres://someuser:hunter2@127.0.0.1:1/somedatabase", unchanged), nil)
	body := report()
	away.checkFailure(t, away.deliver(t, body), 503, "temporarily unavailable", "no connection to the server")
	for _, hidden := range []string{"someuser", "somedatabase", "127.0.0.1"} {
		if strings.Contains(away.log.String(), hidden) {
			t.Errorf("log has %q: %s", hidden, away.log)
		}
	}
	h.expectAnswer(t, ok, h.deliver(t, body))
}

// TestServerGoesAndComes: deliveries while it refuses connections are welcome afterwards.
func TestServerGoesAndComes(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	address, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/postgres"
	admin := h.pool(t, address.String(), unchanged)
	run := func(sql string, args ...any) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	body := report()
	h.expectAnswer(t, ok, h.deliver(t, body))
	name := pgx.Identifier{h.Name}.Sanitize()
	run(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS false`)
	run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1::text`, h.Name)
	next := report()
	for _, body := range []string{body, next} {
		h.checkFailure(t, h.deliver(t, body), 503, "temporarily unavailable", "inbox: transaction: ") // a code of the server, or a pipe that is broken already
	}
	run(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS true`)
	h.expectAnswer(t, ok, h.deliver(t, body))
	h.expectAnswer(t, ok, h.deliver(t, next))
	h.expect(t, once(body, next))
}

// TestACutConnectionIsAllOrNothing breaks the connection before each message goes out, and in the place of each answer: the
// sender is told to come again, and after it has, there is one event.
func TestACutConnectionIsAllOrNothing(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	var bodies []string
	for _, message := range []string{"begin", "webhook_inbox_record", "outbox_enqueue", "commit\x00"} {
		for _, after := range []bool{false, true} {
			var scissors scissors
			cut := h.on(t, h.pool(t, h.URL, scissors.hold), nil)
			scissors.message, scissors.after = []byte(message), after
			scissors.open.Store(true)
			before, body := once(bodies...), report()
			bodies = append(bodies, body)
			cut.checkFailure(t, cut.deliver(t, body), 503, "temporarily unavailable", "inbox: ")
			if message == "commit\x00" && after {
				before = once(bodies...)
			}
			h.expect(t, before)
			if scissors.open.Load() {
				t.Errorf("nothing was cut at %q", message)
			}
			cut.expectAnswer(t, ok, cut.deliver(t, body))
			h.expect(t, once(bodies...))
		}
	}
}

// scissors cut the next connection that sends the message.
type scissors struct {
	message []byte
	after   bool // the server gets the message and acts on it, and the answer is lost
	open    atomic.Bool
}

func (s *scissors) hold(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &cuttable{conn, s}, err
	}
}

type cuttable struct {
	net.Conn
	*scissors
}

func (c *cuttable) Write(p []byte) (int, error) {
	if !bytes.Contains(p, c.message) || !c.open.CompareAndSwap(true, false) {
		return c.Conn.Write(p)
	}
	if c.after {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
		// The first bytes of the answer prove that the server acted.
		if _, err := c.Conn.Read(make([]byte, 1)); err != nil {
			return 0, err
		}
	}
	return 0, errors.Join(&net.OpError{Op: "write", Err: fmt.Errorf("cut at %q", c.message)}, c.Conn.Close())
}

// TestASenderThatHangsUp is no failure of the application's, and may come again.
func TestASenderThatHangsUp(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	body := report()
	first := h.begin(t)
	if _, err := h.Record(t.Context(), first, verified(body)); err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	r := webhooktest.Request{Scheme: h.scheme, Secret: h.secret(), Body: []byte(body)}.New(t, "/").WithContext(ctx)
	served := make(chan answer)
	go func() { served <- h.serve(r) }()
	h.untilBlocked(t)
	hangUp()
	<-served
	if !strings.Contains(h.log.String(), "level=INFO") || strings.Contains(h.log.String(), "level=ERROR") {
		t.Errorf("log %s: want level INFO", h.log)
	}
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.expectAnswer(t, ok, h.deliver(t, body))
	h.expect(t, once(body))
}

// TestAPanickingDraft leaves nothing behind, and no connection in use.
func TestAPanickingDraft(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	panics := h.with(t, func(c *inbox.Config) {
		c.Draft = func(context.Context, webhook.Delivery) (event.Draft, error) { panic("no") }
	})
	body := report()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed: net/http would not see it")
			}
		}()
		panics.deliver(t, body)
	}()
	h.expectAnswer(t, ok, h.deliver(t, body))
	if n := h.Pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections in use", n)
	}
}
