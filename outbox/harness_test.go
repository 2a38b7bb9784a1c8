package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// patience bounds every wait of these tests; none of them lasts long unless it fails.
const patience = 30 * time.Second

type payload struct {
	N int `json:"n"`
}

// The event types of these tests. Definitions are process-wide, and databases are not shared.
var (
	typeA = event.MustDefine[payload]("a")
	typeB = event.MustDefine[payload]("b")
	typeC = event.MustDefine[payload]("c")
)

// rig is a database with shorthands.
type rig struct {
	testing.TB
	db *pgtest.DB
}

func newRig(t testing.TB, opts ...pgtest.Option) *rig {
	t.Helper()
	return &rig{t, pgtest.New(t, opts...)}
}

// agg is the id of the n-th aggregate.
func agg(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)) }

// draft is an event about the n-th aggregate with a key of its own.
func draft(of event.Definition[payload], n int) event.Draft {
	return of.New("order", agg(n), uuid.NewString(), payload{n})
}

func (r *rig) enqueue(drafts ...event.Draft) []uuid.UUID {
	r.Helper()
	receipts, err := outbox.Enqueue(context.Background(), r.db.Pool, drafts...)
	if err != nil {
		r.Fatal(err)
	}
	ids := make([]uuid.UUID, len(receipts))
	for i, receipt := range receipts {
		ids[i] = receipt.ID
	}
	return ids
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	if _, err := r.db.Pool.Exec(context.Background(), sql, args...); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
}

// value reads one value.
func value[T any](r *rig, sql string, args ...any) (v T) {
	r.Helper()
	if err := r.db.Pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
	return v
}

// until waits for a condition of the database to be true.
func (r *rig) until(condition string, args ...any) {
	r.Helper()
	r.wait(condition, func() bool { return value[bool](r, "select coalesce("+condition+", false)", args...) })
}

// wait polls a fact.
func (r *rig) wait(what string, fact func() bool) {
	r.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if fact() {
			return
		}
	}
	r.Fatalf("waited in vain: %s; events: %.2000s", what, value[string](r, `select coalesce(string_agg(
		e.event_type || ' ' || e.status || ' ' || e.attempts || ' ' || coalesce(e.lane, '-') || ' ' || coalesce(e.error, ''), E'\n'), 'none')
		from public.outbox_events e`))
}

// done is the condition that no event is active any more, and the rail's marks agree with the rows.
func (r *rig) done() {
	r.Helper()
	r.until(`not exists (select from public.outbox_events where status in ('pending', 'processing', 'failed'))`)
	if bad := value[int](r, `select count(*) from public.outbox_check()`); bad != 0 {
		r.Errorf("outbox_check finds %d marks wrong", bad)
	}
}

// running is a worker at work.
type running struct {
	*outbox.Worker
	result chan error
	log    *journal
	once   sync.Once
	err    error
}

// work starts a worker, and stops it at the end of the test, which fails unless that goes clean.
func (r *rig) work(handlers *outbox.Handlers, cfg outbox.Config) *running {
	r.Helper()
	w := r.workOn(r.db, handlers, cfg)
	r.Cleanup(func() {
		if err := w.stop(r.TB); err != nil {
			r.Errorf("worker: %v\n%s", err, w.log)
		}
	})
	return w
}

// workOn starts a worker that the test stops by itself.
func (r *rig) workOn(db *pgtest.DB, handlers *outbox.Handlers, cfg outbox.Config) *running {
	r.Helper()
	log := &journal{}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	worker, err := outbox.NewWorker(db.Pool, handlers, cfg)
	if err != nil {
		r.Fatal(err)
	}
	w := &running{Worker: worker, result: make(chan error, 1), log: log}
	go func() { w.result <- worker.Run(context.Background()) }()
	r.wait("the worker runs", worker.Started)
	return w
}

// stop stops the worker once, and returns what Run returned.
func (w *running) stop(t testing.TB) error {
	t.Helper()
	w.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		w.err = w.Stop(ctx)
		if err := w.ended(t); err != w.err {
			t.Errorf("Stop returned %v, Run %v", w.err, err)
		}
	})
	return w.err
}

// ended waits for Run to return.
func (w *running) ended(t testing.TB) error {
	t.Helper()
	select {
	case err := <-w.result:
		w.result <- err
		return err
	case <-time.After(patience):
		t.Fatal("Run does not return")
		return nil
	}
}

// receive waits for a value from the handlers.
func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("nothing came from the handlers")
	}
	return v
}

// journal keeps what a worker logs.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) has(text string) bool { return strings.Contains(j.String(), text) }

// tx is short for what transactional handlers get.
type tx = pgx.Tx

func handleTx(h *outbox.Handlers, of event.Definition[payload], fn func(context.Context, tx, event.Event[payload]) error) {
	outbox.HandleTx(h, of, fn)
}

func goexit() { runtime.Goexit() }

// outages are the errors of case P6.
var outages = []error{
	fmt.Errorf("call: %w", syscall.ECONNREFUSED), event.FromStatus(http.StatusTooManyRequests), event.FromStatus(http.StatusServiceUnavailable),
	fmt.Errorf("call: %w", context.DeadlineExceeded),
}

// pool opens another pool on the rig's database.
func (r *rig) pool(change func(*pgxpool.Config)) *pgxpool.Pool {
	r.Helper()
	config := r.db.Pool.Config()
	change(config)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(pool.Close)
	return pool
}

// handle registers a function for a type.
func handle(h *outbox.Handlers, of event.Definition[payload], fn func(context.Context, event.Event[payload]) error) {
	outbox.Handle(h, of, fn)
}
