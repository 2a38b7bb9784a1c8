package faults

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// network is a proxy between a worker and the server.
type network struct {
	*rig
	proxy *toxiproxy.Proxy
	url   string
}

func newNetwork(r *rig) *network {
	r.Helper()
	config, err := pgxpool.ParseConfig(r.url)
	r.must(err)
	upstream := fmt.Sprintf("127.0.0.1:%d", config.ConnConfig.Port)
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "postgres", "127.0.0.1:0", upstream)
	r.must(proxy.Start())
	r.Cleanup(proxy.Stop)
	return &network{r, proxy, strings.Replace(r.url, upstream, proxy.Listen, 1)}
}

// swallow makes everything vanish that goes in a direction: "upstream" to the server, or "downstream" to the worker.
func (n *network) swallow(direction string) error {
	_, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name": "hole", "type": "timeout", "stream": %q, "attributes": {"timeout": 0}}`, direction)))
	return err
}

// cut ends every connection, and lets new ones through again.
func (n *network) cut() {
	n.Helper()
	n.proxy.Stop()
	n.must(n.proxy.Toxics.RemoveToxic(context.Background(), "hole"))
	n.must(n.proxy.Start())
}

// watch makes everything vanish in a direction from the first statement on that it looks for, once an event is there.
type watch struct {
	*network
	text, direction string
	once            sync.Once
	sent            chan struct{}
}

func (w *watch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, w.text) && w.eventually(time.Second, `exists (select from public.outbox_events)`) == nil {
		w.once.Do(func() {
			if err := w.swallow(w.direction); err != nil {
				w.Error(err)
			}
			close(w.sent)
		})
	}
	return ctx
}

func (*watch) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestCutConnection: the connection is cut before the server gets a statement, or after it has committed and before its
// answer arrives. Either way the event is handled once and its attempt counted once: the acknowledgement is repeated under
// its token, and what a claim without an answer has taken is given back.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, statement, direction string
		// committed is what tells that the server has committed although its answer is lost.
		committed string
	}{
		{"claim before commit", "outbox_claim_events(", "upstream", ""},
		{"claim after commit", "outbox_claim_events(", "downstream", `exists (select from public.outbox_events where status = 'processing')`},
		{"ack before commit", "outbox_mark_processed_many(", "upstream", ""},
		{"ack after commit", "outbox_mark_processed_many(", "downstream", allProcessed},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := newNetwork(r)
			w := &watch{network: n, text: c.statement, direction: c.direction, sent: make(chan struct{})}
			begun := make(chan int, 10)
			stop := n.worker(w, func(_ context.Context, e event.Event[load]) error {
				begun <- e.Attempt
				return nil
			})
			r.enqueue(draft(1, load{Seq: 1}))
			await(t, w.sent)
			if c.committed != "" {
				r.until(c.committed)
			}
			n.cut()
			r.until(allProcessed)
			stop()
			if attempts := value[int](r, `select max(attempts) from public.outbox_events`); len(begun) != 1 || attempts != 1 {
				t.Errorf("%d handlers began, %d attempts are counted; want one of each", len(begun), attempts)
			}
		})
	}
}

// worker runs a worker in this process whose connections lead through the network; stop ends it.
func (n *network) worker(tracer pgx.QueryTracer, handler func(context.Context, event.Event[load]) error) (stop func()) {
	n.Helper()
	config, err := pgxpool.ParseConfig(n.url)
	n.must(err)
	config.ConnConfig.Tracer = tracer
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip: what is sent is what is watched
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	n.must(err)
	var handlers outbox.Handlers
	outbox.Handle(&handlers, happened, handler)
	worker, err := outbox.NewWorker(pool, &handlers, outbox.Config{PollInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	n.must(err)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	return func() {
		n.Helper()
		n.must(worker.Stop(context.Background()))
		n.must(<-ended)
		pool.Close()
	}
}

func await(t testing.TB, what <-chan struct{}) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(patience):
		t.Fatal(errTimeout)
	}
}

// TestCutEnqueue: an application's transaction whose connection is cut around its commit is there or not, as a whole, and
// repeating it under the same keys makes no second event.
func TestCutEnqueue(t *testing.T) {
	t.Parallel()
	for direction, want := range map[string][]bool{"upstream": {false, false}, "downstream": {true, true}} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := newNetwork(r)
			ctx := context.Background()
			conn, err := pgx.Connect(ctx, n.url)
			r.must(err)
			drafts := []event.Draft{draft(1, load{Seq: 1}), draft(2, load{Seq: 1})}
			tx, err := conn.Begin(ctx)
			r.must(err)
			_, err = outbox.Enqueue(ctx, tx, drafts...)
			r.must(err)
			r.must(n.swallow(direction))
			failed := make(chan error, 1)
			go func() { failed <- tx.Commit(ctx) }()
			if want[0] {
				r.until(`(select count(*) from public.outbox_events) = 2`)
			}
			n.cut()
			if err := <-failed; err == nil {
				t.Error("the commit succeeded without an answer")
			}
			receipts, err := outbox.Enqueue(ctx, r.pool, drafts...)
			r.must(err)
			if got := []bool{receipts[0].Duplicate, receipts[1].Duplicate}; !cmp.Equal(want, got) {
				t.Errorf("duplicates at the repeat: %v, want %v", got, want)
			}
			if n := value[int](r, `select count(*) from public.outbox_events`); n != 2 {
				t.Errorf("%d events, want 2", n)
			}
		})
	}
}
