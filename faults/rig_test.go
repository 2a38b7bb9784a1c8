package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest/server"
	"github.com/openlup/pgrail/migrate"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// patience bounds the wait for a fact.
const patience = 90 * time.Second

// rig is a server of its own, with a database that keeps the evidence.
type rig struct {
	testing.TB
	server *server.Local
	url    string
	pool   *pgxpool.Pool
}

func newRig(t testing.TB) *rig {
	t.Helper()
	ctx := context.Background()
	local, err := server.StartLocal(ctx, server.Options{Loopback: true, TempDir: server.MemoryDir(), Settings: map[string]string{"fsync": "on", "synchronous_commit": "on"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{TB: t, server: local, url: local.URL("postgres")}
	r.must(migrate.Up(ctx, r.url))
	r.pool, err = pgxpool.New(ctx, r.url)
	r.must(err)
	t.Cleanup(r.pool.Close)
	r.exec(evidence)
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	if _, err := r.pool.Exec(context.Background(), sql, args...); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
}

func value[T any](r *rig, sql string, args ...any) (v T) {
	r.Helper()
	if err := r.pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
	return v
}

// until polls a condition of the database, which may be away meanwhile.
func (r *rig) until(condition string, args ...any) {
	r.Helper()
	if err := r.eventually(patience, condition, args...); err != nil {
		r.Fatalf("%v: %s\n%s", err, condition, r.picture())
	}
}

func (r *rig) eventually(limit time.Duration, condition string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for ctx.Err() == nil {
		var fact bool
		asked := time.Now()
		if err := r.pool.QueryRow(ctx, "select "+condition, args...).Scan(&fact); err == nil && fact {
			return nil
		}
		select { // leaves the processor to those who are waited for
		case <-ctx.Done():
		case <-time.After(min(max(20*time.Millisecond, 5*time.Since(asked)), 500*time.Millisecond)):
		}
	}
	return errTimeout
}

func (r *rig) picture() string {
	return value[string](r, `select coalesce(string_agg(concat_ws(' ', n, status, lane, 'attempts', attempts, 'crashes', crashes, error), E'\n'), 'no events')
		from (select count(*) n, status, lane, attempts, crashes, error from public.outbox_events group by 2, 3, 4, 5, 6 order by 1 desc limit 20) e`)
}

// agg is the id of the n-th aggregate.
func agg(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)) }

func draft(aggregate int, carries load) event.Draft {
	return happened.New("thing", agg(aggregate), uuid.NewString(), carries)
}

func (r *rig) enqueue(drafts ...event.Draft) []uuid.UUID {
	r.Helper()
	receipts, err := outbox.Enqueue(context.Background(), r.pool, drafts...)
	r.must(err)
	ids := make([]uuid.UUID, len(receipts))
	for i, receipt := range receipts {
		ids[i] = receipt.ID
	}
	return ids
}

// process is a worker process.
type process struct {
	*rig
	name string
	cmd  *exec.Cmd
	log  string
	once sync.Once
	err  error
}

var born struct {
	sync.Mutex
	n int
}

// spawn starts a worker process, which the end of the test ends.
func (r *rig) spawn(at step, concurrency int) *process {
	r.Helper()
	born.Lock()
	born.n++
	name := fmt.Sprintf("worker %d", born.n)
	born.Unlock()
	log, err := os.CreateTemp(r.TempDir(), "worker")
	r.must(err)
	defer log.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envURL+"="+r.url, envName+"="+name, envStep+"="+string(at), fmt.Sprintf("%s=%d", envSlow, concurrency))
	cmd.Stderr = log
	r.must(cmd.Start())
	p := &process{rig: r, name: name, cmd: cmd, log: log.Name()}
	r.Cleanup(func() { p.kill() })
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

// murder notes the kill first: from then on a repeat is explained.
func (p *process) murder() {
	p.Helper()
	p.note()
	p.kill()
}

func (p *process) note() {
	p.Helper()
	p.exec(`insert into public.killed (worker) values ($1::text) on conflict do nothing`, p.name)
}

func (p *process) wait() error {
	p.once.Do(func() { p.err = p.cmd.Wait() })
	return p.err
}

// dies waits until the process has killed itself.
func (p *process) dies() {
	p.Helper()
	var exit *exec.ExitError
	if err := p.wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		p.Fatalf("%s ended with %v, want kill -9\n%s", p.name, err, p.words())
	}
	p.note()
}

// stop ends the process cleanly.
func (p *process) stop() {
	p.Helper()
	p.must(p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.wait(); err != nil {
		p.Errorf("%s ended with %v\n%s", p.name, err, p.words())
	}
}

func (p *process) words() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

// older lets the silence pass that the others wait for before they declare a worker dead.
func (r *rig) older() {
	r.exec(`update public.outbox_workers set seen_at = seen_at - interval '1 minute'`)
}

const allProcessed = `not exists (select from public.outbox_events where status <> 'processed')`
