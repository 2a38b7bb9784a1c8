package outbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
)

// The tests below run the loop on a real server, with what the public configuration does not offer: short leases,
// replies that get lost, servers that change.

const patience = 30 * time.Second

type rig struct {
	*testing.T
	db *pgtest.DB
}

func newRig(t *testing.T, opts ...pgtest.Option) *rig {
	t.Helper()
	t.Parallel()
	return &rig{t, pgtest.New(t, opts...)}
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	if _, err := r.db.Pool.Exec(context.Background(), sql, args...); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
}

func value[T any](r *rig, sql string, args ...any) (v T) {
	r.Helper()
	if err := r.db.Pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
	return v
}

// until waits for a condition of the database.
func (r *rig) until(condition string, args ...any) {
	r.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if value[bool](r, `select coalesce(`+condition+`, false)`, args...) {
			return
		}
	}
	r.Fatalf("waited in vain: %s; events: %.2000s", condition, value[string](r, `select coalesce(string_agg(e.event_type || ' ' || e.status || ' '
		|| e.attempts || ' ' || coalesce(e.lane, '-') || ' ' || coalesce(e.error, ''), E'\n'), 'none') from public.outbox_events e`))
}

// insert writes n events of a type, one aggregate each.
func (r *rig) insert(eventType string, n int) {
	r.Helper()
	r.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		select 'order', gen_random_uuid(), $1, gen_random_uuid()::text, '{}' from generate_series(1, $2)`, eventType, n)
}

func (r *rig) done() {
	r.Helper()
	r.until(`not exists (select from public.outbox_events where status in ('pending', 'processing', 'failed'))`)
}

type worker struct {
	*rig
	loop  *Loop
	log   *journal
	once  sync.Once
	ended chan struct{}
	left  *StopError
	err   error
}

// run starts a loop whose connections are configured anew by change, and stops it with the test.
func (r *rig) run(cfg Config, change func(*pgxpool.Config), handle Handle) *worker {
	r.Helper()
	w := &worker{rig: r, log: &journal{}, ended: make(chan struct{})}
	cfg.Logger = newLogger(w.log)
	w.loop = New(cfg, handle)
	config := r.db.Pool.Config()
	if change != nil {
		change(config)
	}
	go func() {
		defer close(w.ended)
		w.left, w.err = w.loop.Run(context.Background(), config)
	}()
	r.Cleanup(w.stop)
	return w
}

func (w *worker) stop() {
	w.Helper()
	w.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		w.loop.Stop(ctx)
		<-w.ended
		if w.left != nil || w.err != nil {
			w.Errorf("stopped with %v, %v\n%s", w.left, w.err, w.log)
		}
	})
}

// Case O4: a batch reaches the loop oldest first, whatever the plan made of it.
func TestO4_BatchIsOldestFirst(t *testing.T) {
	r := newRig(t)
	r.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, created_at)
		select 'order', gen_random_uuid(), case when random() < 0.5 then 'a' else 'b' end, i::text, '{}',
			clock_timestamp() - (random() * 1000)::integer % 40 * interval '1 minute'
		from generate_series(1, 300) i`)
	s := newStore(r.db.Pool, testConfig().Policy)
	for range 3 {
		events, err := s.claim(t.Context(), ask{types: []string{"a", "b"}, limit: 100}, nil, time.Minute)
		if err != nil || len(events) != 100 {
			t.Fatal(len(events), err)
		}
		if !slices.IsSortedFunc(events, older) {
			t.Error("not oldest first")
		}
		last := value[time.Time](r, `select coalesce(min(created_at), 'infinity'::timestamptz - interval '1 s') from public.outbox_events where status = 'pending' having count(*) > 0
			union all select '2200-01-01' limit 1`)
		if events[99].CreatedAt.After(last) {
			t.Error("something older stayed behind")
		}
	}
}

// Case L1 on a real server: longer than its lease, and nobody else runs it.
func TestL1_LongHandlerKeepsItsEvent(t *testing.T) {
	r := newRig(t)
	r.insert("a", 1)
	cfg := testConfig("a")
	cfg.Lease, cfg.PollInterval = 4*time.Second, 20*time.Millisecond
	var started atomic.Int32
	release := make(chan struct{})
	handle := func(ctx context.Context, _ Claimed) Result {
		started.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
			t.Errorf("cancelled: %v", context.Cause(ctx))
		}
		return Result{Outcome: Processed}
	}
	r.run(cfg, nil, handle)
	r.until(`exists (select from public.outbox_events where status = 'processing')`)
	other := r.run(cfg, nil, handle)
	claimed := value[time.Time](r, `select available_at from public.outbox_events`)
	r.until(`(select available_at > $1::timestamptz + interval '4 s' from public.outbox_events)`, claimed)
	close(release)
	r.done()
	if n := started.Load(); n != 1 || value[int](r, `select attempts from public.outbox_events`) != 1 {
		t.Errorf("started %d times", n)
	}
	other.stop()
}

// Case L7: no time of this machine's clock ever crosses the wire, in any parameter of any statement.
func TestL7_NoTimeCrossesTheWire(t *testing.T) {
	r := newRig(t)
	r.insert("a", 20)
	spy := &timeSpy{}
	cfg := testConfig("a")
	cfg.Lease = time.Second
	var n atomic.Int32
	w := r.run(cfg, func(c *pgxpool.Config) { c.ConnConfig.Tracer = spy }, func(ctx context.Context, e Claimed) Result {
		if n.Add(1) == 1 {
			// Long enough for an extension to be asked for.
			for value[bool](r, `select available_at < created_at + interval '1.5 s' from public.outbox_events where id = $1`, e.ID) {
				if ctx.Err() != nil {
					break
				}
			}
		}
		return Result{Outcome: []Outcome{Processed, Discard, Release}[min(int(n.Load())%3, 2-e.Attempt/2)]}
	})
	r.until(`(select count(*) from public.outbox_events where status in ('processed', 'discarded')) > 10`)
	w.stop()
	if spy.statements.Load() < 10 || spy.times.Load() != 0 {
		t.Errorf("%d times in the parameters of %d statements", spy.times.Load(), spy.statements.Load())
	}
}

// timeSpy counts parameters that are times.
type timeSpy struct{ statements, times atomic.Int32 }

func (s *timeSpy) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.statements.Add(1)
	for _, arg := range data.Args {
		switch arg.(type) {
		case time.Time, *time.Time, []time.Time:
			s.times.Add(1)
		}
	}
	return ctx
}

func (s *timeSpy) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Case D1: what a role or a database has for defaults does not matter to the loop.
func TestD1_DefaultsDoNotMatter(t *testing.T) {
	r := newRig(t, pgtest.Setting("default_transaction_isolation", "serializable"), pgtest.Setting("default_transaction_read_only", "on"),
		pgtest.Setting("statement_timeout", "3s"), pgtest.Setting("lock_timeout", "2s"), pgtest.Setting("idle_session_timeout", "1s"),
		pgtest.PoolConfig(func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				if conn.Config().RuntimeParams["application_name"] == "test" {
					_, err := conn.Exec(ctx, sessionDefaults)
					return err
				}
				return nil
			}
			c.ConnConfig.RuntimeParams["application_name"] = "test"
		}))
	r.insert("a", 50)
	w := r.run(testConfig("a"), nil, processed)
	r.done()
	w.stop()
	pool, err := openPool(t.Context(), r.db.Pool.Config(), &link{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for setting, want := range map[string]string{"transaction_isolation": "read committed", "transaction_read_only": "off",
		"statement_timeout": "1min", "lock_timeout": "2s", "idle_session_timeout": "0", "application_name": "pgrail worker"} {
		var got string
		if err := pool.QueryRow(t.Context(), `select current_setting($1)`, setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", setting, got, err, want)
		}
	}
	if w.log.lines("level=WARN") != 0 {
		t.Errorf("\n%s", w.log)
	}
}

// What an application does around its own uses of a connection must not reset ours; how it connects must be kept.
func TestHooksOfTheApplication(t *testing.T) {
	r := newRig(t)
	r.insert("a", 200)
	var before, after, around atomic.Int32
	w := r.run(testConfig("a"), func(c *pgxpool.Config) {
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { before.Add(1); return nil }
		c.AfterConnect = func(context.Context, *pgx.Conn) error { after.Add(1); return nil }
		c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
			around.Add(1)
			return false, errors.New("no tenant in the context")
		}
		c.AfterRelease = func(*pgx.Conn) bool { around.Add(1); return false }
	}, processed)
	r.done()
	r.until(`exists (select from public.outbox_workers)`)
	w.stop()
	if before.Load() < 2 || after.Load() != before.Load() || around.Load() != 0 {
		t.Errorf("%d connections prepared, %d set up, %d hooks around", before.Load(), after.Load(), around.Load())
	}
}

func TestStoreSaysWhichTokensHold(t *testing.T) {
	r := newRig(t)
	r.insert("a", 3)
	s := newStore(r.db.Pool, testConfig().Policy)
	events, err := s.claim(t.Context(), ask{types: []string{"a"}, limit: 3}, nil, time.Minute)
	if err != nil || len(events) != 3 {
		t.Fatal(events, err)
	}
	stranger := events[1]
	stranger.Token = uuid.NewString()
	kept, err := s.extend(t.Context(), []Claimed{events[0], stranger, events[2]}, time.Minute)
	if err != nil || len(kept) != 2 || !kept[events[0].Token] || !kept[events[2].Token] {
		t.Errorf("kept %v, %v", kept, err)
	}
	batch := []verdict{{event: stranger}, {event: events[0]}, {event: events[2]}, {event: events[0]}}
	outcomes, err := s.markProcessed(t.Context(), batch[:3])
	if err != nil || !slices.Equal(outcomes, []string{"lost", "processed", "processed"}) {
		t.Errorf("%v, %v", outcomes, err)
	}
	// Case L5: the acknowledgement whose reply was lost is told apart from one that came too late.
	outcomes, err = s.markProcessed(t.Context(), []verdict{batch[1], batch[0]})
	if err != nil || !slices.Equal(outcomes, []string{"repeated", "lost"}) {
		t.Errorf("%v, %v", outcomes, err)
	}
	for i := range batch {
		batch[i].result = Result{Outcome: Retry, Delay: -1}
	}
	batch[0].event = events[1]
	outcomes, err = s.markFailed(t.Context(), batch[:2])
	if err != nil || !slices.Equal(outcomes, []string{"failed", "missed"}) {
		t.Errorf("%v, %v", outcomes, err)
	}
}
