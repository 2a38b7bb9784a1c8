package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/internal/pgtest/bouncer"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// newPooledRig makes a rig whose pool leads through PgBouncer.
func newPooledRig(t testing.TB, mode bouncer.Mode, exec pgx.QueryExecMode, opts ...pgtest.Option) *rig {
	t.Helper()
	through := bouncer.Through(t, mode)
	return newRig(t, append(opts, pgtest.PoolConfig(func(c *pgxpool.Config) {
		through(c)
		c.ConnConfig.DefaultQueryExecMode = exec
	}))...)
}

// workable are the modes of pgx that can work behind a transaction pooler; the others rely on prepared statements.
var (
	workable   = []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	unworkable = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec}
)

// Case D7, the part with a pooler: everything this package asks of the database, through PgBouncer in transaction mode.
func TestD7_EverythingThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range workable {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := newPooledRig(t, bouncer.Transaction, mode)
			r.allOutcomes()
			r.operateAll()
			r.drainOne()
		})
	}
}

// drainOne explains one event, and handles it and the redriven one without a worker that runs.
func (r *rig) drainOne() {
	r.Helper()
	worker, err := outbox.NewWorker(r.db.Pool, oneHandler(), outbox.Config{})
	r.check(err)
	id := r.enqueue(draft(typeA, 50))[0]
	waiting, err := outbox.Explain(r.Context(), r.db.Pool, id)
	r.check(err)
	told := r.drain(worker)
	if got := value[string](r, `select status from public.outbox_events where id = $1::uuid`, id.String()); waiting.Reason != outbox.ReasonClaimable || len(told) != 2 || got != "processed" {
		r.Errorf("it was %s, then %q, then %s", waiting.Reason, told, got)
	}
}

// The sessions behind the pooler are ended again and again: the worker goes on, and no attempt is spent.
func TestD7_SessionsBehindThePoolerEnd(t *testing.T) {
	t.Parallel()
	for _, mode := range workable {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := newPooledRig(t, bouncer.Transaction, mode)
			direct := r.db.Connect(t)
			more := make(chan struct{}, 100)
			w := r.work(register(typeA, func(context.Context, event.Event[payload]) error { <-more; return nil }), outbox.Config{PollInterval: 20 * time.Millisecond})
			for n := range 5 {
				r.enqueue(draft(typeA, 10*n), draft(typeA, 10*n+1))
				r.until(`exists (select from public.outbox_events where status = 'processing')`)
				_, err := direct.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
				r.check(err)
				more <- struct{}{}
				more <- struct{}{}
				r.onDirect(direct, `select count(*) = $1 from public.outbox_events where status = 'processed' and attempts = 1`, 2*n+2)
			}
			r.check(w.stop(t))
		})
	}
}

// onDirect waits for a fact past the pooler, whose sessions come and go.
func (r *rig) onDirect(conn *pgx.Conn, sql string, args ...any) {
	r.Helper()
	r.wait(sql, func() (fact bool) {
		r.check(conn.QueryRow(context.Background(), sql, args...).Scan(&fact))
		return fact
	})
}

// Case D1 through a pooler, where the worker must not change the session: the role's defaults do not become the loop's.
func TestD7_DefaultsDoNotReachTheLoopThroughAPooler(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Setting("default_transaction_isolation", "serializable"), pgtest.Setting("default_transaction_read_only", "on"),
		pgtest.PoolConfig(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "off" }))
	config, err := pgxpool.ParseConfig(r.db.URL)
	r.check(err)
	bouncer.Through(t, bouncer.Transaction)(config)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	through, err := pgxpool.NewWithConfig(t.Context(), config)
	r.check(err)
	defer through.Close()
	_, err = through.Exec(t.Context(), `delete from public.outbox_events`)
	if state := new(pgconn.PgError); !errors.As(err, &state) || state.Code != "25006" {
		t.Fatalf("the default does not come through the pooler: %v", err)
	}
	var h outbox.Handlers
	handle(&h, typeA, func(_ context.Context, e event.Event[payload]) error {
		return []error{nil, errors.New("bad")}[e.Payload.N]
	})
	w := r.workOn(&pgtest.DB{URL: r.db.URL, Name: r.db.Name, Pool: through}, &h, outbox.Config{})
	r.enqueue(draft(typeA, 0), draft(typeA, 1))
	r.until(`(select string_agg(status, ' ' order by status) from public.outbox_events) = 'failed processed'`)
	r.check(w.stop(t))
}

// The other three are told at the start what to set, whatever else goes on at the pooler.
func TestD7_ModesThatAPoolerBreaksAreRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range unworkable {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := newPooledRig(t, bouncer.Transaction, mode)
			var h outbox.Handlers
			handle(&h, typeA, func(context.Context, event.Event[payload]) error { return nil })
			worker, err := outbox.NewWorker(r.db.Pool, &h, outbox.Config{Logger: slog.New(slog.DiscardHandler)})
			r.check(err)
			for what, err := range map[string]error{"Drain": worker.Drain(t.Context(), nil), "Run": worker.Run(t.Context())} {
				if !errors.Is(err, outbox.ErrPooler) || !strings.Contains(err.Error(), mode.String()) ||
					!strings.Contains(err.Error(), "set default_query_exec_mode to exec or simple_protocol") {
					t.Errorf("%s returned %v", what, err)
				}
			}
		})
	}
}

// A pooler that keeps sessions is as good as none: every mode works, and notifications are heard.
func TestD7_SessionPoolerTakesEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range append(unworkable, workable...) {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := newPooledRig(t, bouncer.Session, mode)
			got := make(chan int)
			var h outbox.Handlers
			handle(&h, typeA, func(_ context.Context, e event.Event[payload]) error { got <- e.Payload.N; return nil })
			w := r.work(&h, outbox.Config{PollInterval: time.Minute})
			r.until(`exists (select from public.outbox_workers)`) // which a worker enters when it has heard itself
			r.enqueue(draft(typeA, 5))
			if n := receive(t, got); n != 5 || w.log.has("not listening") {
				t.Errorf("got %d; log:\n%s", n, w.log)
			}
			r.done()
		})
	}
}

// What one client sets on a pooler's session meets the next: the worker leaves nothing behind, not even a LISTEN, and
// says that it is deaf.
func TestD7_TheWorkerLeavesNothingOnAPoolersSessions(t *testing.T) {
	t.Parallel()
	r := newPooledRig(t, bouncer.Transaction, pgx.QueryExecModeExec, pgtest.Setting("statement_timeout", "47s"))
	before := r.sessionSettings()
	got := make(chan int)
	var h outbox.Handlers
	handle(&h, typeA, func(_ context.Context, e event.Event[payload]) error { got <- e.Payload.N; return nil })
	w := r.work(&h, outbox.Config{})
	r.wait("the worker says that it is deaf", func() bool { return w.log.has("not listening, polling alone") })
	r.enqueue(draft(typeA, 7))
	if n := receive(t, got); n != 7 {
		t.Errorf("got %d", n)
	}
	r.done()
	for settings, n := range r.sessionSettings() {
		if before[settings] == 0 {
			t.Errorf("%d sessions are left with %s; before the worker: %v", n, settings, before)
		}
	}
}

// sessionSettings counts the pooler's sessions by what another client would find on them. It takes as many at once as
// there are.
func (r *rig) sessionSettings() map[string]int {
	r.Helper()
	found := map[string]int{}
	for range 8 {
		conn, err := pgx.ConnectConfig(context.Background(), r.db.Pool.Config().ConnConfig)
		r.check(err)
		defer func() { r.check(conn.Close(context.Background())) }()
		tx, err := conn.Begin(context.Background())
		r.check(err)
		var settings string
		r.check(tx.QueryRow(context.Background(), `select concat_ws(' ', current_setting('default_transaction_isolation'),
			current_setting('default_transaction_read_only'), current_setting('statement_timeout'), current_setting('lock_timeout'),
			current_setting('idle_session_timeout'), (select string_agg(c, ',') from pg_listening_channels() c))`).Scan(&settings))
		found[settings]++
	}
	return found
}
