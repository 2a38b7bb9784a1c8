package faults

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/openlup/pgrail/outbox"
)

// network is a proxy between a client and the server.
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

// swallow makes everything vanish that goes in a direction: "upstream" to the server, or "downstream" to the client.
func (n *network) swallow(direction string) error {
	return n.toxic("hole", "timeout", direction, `{"timeout": 0}`)
}

func (n *network) toxic(name, kind, direction, attributes string) error {
	_, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name": %q, "type": %q, "stream": %q, "attributes": %s}`, name, kind, direction, attributes)))
	return err
}

// cut ends every connection, and lets new ones through again.
func (n *network) cut() {
	n.Helper()
	n.proxy.Stop()
	n.must(n.proxy.Toxics.RemoveToxic(context.Background(), "hole"))
	n.must(n.proxy.Start())
}

// config leads through the network. Statements travel in one round trip: what is sent is what is watched.
func (n *network) config(tracer pgx.QueryTracer) *pgxpool.Config {
	n.Helper()
	config, err := pgxpool.ParseConfig(n.url)
	n.must(err)
	config.ConnConfig.Tracer = tracer
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	return config
}

func (n *network) connect(tracer pgx.QueryTracer) *pgx.Conn {
	n.Helper()
	conn, err := pgx.ConnectConfig(context.Background(), n.config(tracer).ConnConfig)
	n.must(err)
	n.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// worker runs a worker in this process; stop ends it.
func (n *network) worker(tracer pgx.QueryTracer, handlers *outbox.Handlers, config outbox.Config) (stop func(context.Context) error) {
	n.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), n.config(tracer))
	n.must(err)
	config.Logger = slog.New(slog.DiscardHandler)
	worker, err := outbox.NewWorker(pool, handlers, config)
	n.must(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = worker.Run(context.Background()) // Stop returns the same
		pool.Close()
	}()
	return func(ctx context.Context) error {
		err := worker.Stop(ctx)
		<-ended
		return err
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

// The connection is cut before the server gets the statement that would commit the step.
func TestCutBeforeEachCommit(t *testing.T) { eachStep(t, before) }

// The connection is cut after the server has committed the step, and before its answer arrives.
func TestCutAfterEachCommit(t *testing.T) { eachStep(t, after) }

func eachStep(t *testing.T, f fault) {
	t.Parallel()
	for _, p := range phases {
		t.Run(string(p.step), func(t *testing.T) { play(t, p, f) })
	}
}
