package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/pgtest/server"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// A spot is where a step is struck: the first to get there tells so, and waits until it may pass.
type spot struct {
	at            string
	once          sync.Once
	reached, pass chan struct{}
	// refusals takes the errors of a server that is read-only.
	refusals chan struct{}
}

func newSpot(at string) *spot {
	return &spot{at: at, reached: make(chan struct{}), pass: make(chan struct{}), refusals: make(chan struct{}, 1)}
}

func (s *spot) hold() {
	s.once.Do(func() {
		close(s.reached)
		<-s.pass
	})
}

type spotKey struct{}

func (s *spot) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	here := data.SQL == s.at || s.at != "" && strings.Contains(data.SQL, "public."+s.at+"(")
	if here {
		s.hold()
	}
	return context.WithValue(ctx, spotKey{}, here || s.at == "")
}

func (s *spot) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	var refusal *pgconn.PgError
	if here, _ := ctx.Value(spotKey{}).(bool); here && errors.As(data.Err, &refusal) && refusal.Code == "25006" {
		select {
		case s.refusals <- struct{}{}:
		default:
		}
	}
}

// A scene is one cell being played: a step on its way through a network that can be cut.
type scene struct {
	*network
	phase phase
	fault fault
	spot  *spot
	// begun counts handlers; finish lets those end that wait.
	begun  atomic.Int32
	finish chan struct{}
}

func newScene(t *testing.T, p phase, f fault) *scene {
	at := p.at
	if f == readOnly && p.call != "" {
		at = p.call // there the server refuses; it never comes to a commit
	}
	s := &scene{network: newNetwork(newRig(t)), phase: p, fault: f, spot: newSpot(at), finish: make(chan struct{})}
	return s
}

// strike brings the fault about at the spot, and ends it.
func (s *scene) strike() {
	s.Helper()
	pass := sync.OnceFunc(func() { close(s.spot.pass) })
	defer pass() // whatever fails here must not leave the step waiting
	await(s, s.spot.reached)
	s.exec(`create table public.before as select * from public.outbox_events`)
	switch s.fault {
	case before, after:
		hole := map[fault]string{before: "upstream", after: "downstream"}[s.fault]
		s.must(s.swallow(hole))
		s.through(pass)
		s.until(s.state())
		s.cut()
	case restarted:
		s.bounce(server.Immediate)
		s.until(s.state())
	case readOnly:
		s.refuse()
		s.through(pass)
		await(s, s.spot.refusals)
		s.until(s.state())
		s.admit()
	}
}

// through lets the step pass while the fault lasts, unless it is the handler itself.
func (s *scene) through(pass func()) {
	if s.phase.at != "" {
		pass()
	}
}

// state is the condition for what the matrix says to be so once the fault has struck.
func (s *scene) state() string {
	if matrix[s.phase.step][s.fault].committed {
		return s.phase.done
	}
	return unchanged
}

// refuse makes the server refuse writes as a standby does, whatever a session asks for; a role's default would be asked away.
func (r *rig) refuse() {
	r.Helper()
	r.exec(`create function public.refuse() returns trigger language plpgsql as $$ begin
		raise exception 'read-only' using errcode = '25006'; end $$`)
	for _, table := range []string{"outbox_events", "outbox_workers"} {
		r.exec(`create trigger refuse before insert or update or delete on public.` + table + ` for each statement execute function public.refuse()`)
	}
}

func (r *rig) admit() {
	r.Helper()
	r.exec(`drop function public.refuse() cascade`)
}

// play takes a step through a fault, and looks whether the cell is right.
func play(t *testing.T, p phase, f fault) {
	t.Parallel()
	s := newScene(t, p, f)
	if c, ok := calls[p.step]; ok {
		s.playCall(c)
		return
	}
	s.playWork()
}

// playCall repeats the call after the fault: the first answer means that nothing had been done, the second that all had.
func (s *scene) playCall(c call) {
	ctx := context.Background()
	about := c.prepare(s.rig)
	conn := s.connect(s.spot)
	failed := make(chan error, 1)
	go func() {
		failed <- pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := c.do(ctx, tx, about)
			return err
		})
	}()
	s.strike()
	if err := <-failed; err == nil || s.fault == readOnly && !errors.Is(err, outbox.ErrReadOnly) {
		s.Errorf("the call ended with %v", err)
	}
	want := map[bool]string{false: c.first, true: c.second}[matrix[s.phase.step][s.fault].committed]
	// A prune passes over what a session holds that has not noticed yet that nobody listens to it.
	s.until(`not exists (select from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() and xact_start is not null)`)
	got, err := c.do(ctx, s.pool, about)
	if err != nil || got != want {
		s.Errorf("repeated: %s, %v; want %s", got, err, want)
	}
	s.until(s.phase.done)
	if again, err := c.do(ctx, s.pool, about); err != nil || again != c.second {
		s.Errorf("repeated once more: %s, %v; want %s", again, err, c.second)
	}
}

// playWork has a worker take the step with one event, and go on until that is processed.
func (s *scene) playWork() {
	s.enqueue(draft(1, load{Seq: 1}))
	stop := s.work()
	if s.phase.step == release {
		s.until(`exists (select from public.outbox_events where status = 'processing')`)
		s.wait(func() bool { return s.begun.Load() == 1 })
		s.interrupted(stop)
	} else {
		s.strike()
		if s.phase.step == extend {
			s.until(s.phase.done) // while the handler still runs
		}
		close(s.finish)
		s.soon()
		s.until(allProcessed)
		s.must(stop(context.Background()))
	}
	s.expect(matrix[s.phase.step][s.fault].again)
}

// expect looks at what is left when the event has been processed.
func (s *scene) expect(again bool) {
	s.Helper()
	want := map[bool]int{false: 1, true: 2}[again]
	if got := int(s.begun.Load()); got != want {
		s.Errorf("%d handlers began, want %d", got, want)
	}
	// Nobody but a handler whose own transaction failed has spent an attempt, and that only where it was not cut off.
	most := 1
	if s.phase.step == handler {
		most = want
	}
	if got := value[int](s.rig, `select attempts from public.outbox_events`); got < 1 || got > most {
		s.Errorf("%d attempts, want at most %d", got, most)
	}
	if got := value[int](s.rig, `select count(*) from public.effects`); got != 1 {
		s.Errorf("%d effects, want one", got)
	}
	if bad := value[int](s.rig, `select count(*) from public.outbox_check()`); bad != 0 {
		s.Errorf("%d marks of the rail are wrong", bad)
	}
}

// interrupted stops the worker while its handler runs, strikes while it gives the event back, and lets another one go on.
func (s *scene) interrupted(stop func(context.Context) error) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- stop(now) }()
	s.strike()
	if err := <-stopped; err != nil {
		s.Errorf("the worker stopped with %v", err)
	}
	s.until(s.phase.done)
	close(s.finish)
	next := s.work()
	s.until(allProcessed)
	s.must(next(context.Background()))
}

// soon ends the backoff of an event whose transaction has failed.
func (s *scene) soon() {
	if s.phase.step != handler {
		return
	}
	s.until(`exists (select from public.outbox_events where status in ('failed', 'processed'))`)
	s.exec(`update public.outbox_events set available_at = clock_timestamp() where status = 'failed'`)
}

// work runs a worker over the network, whose one handler leaves an effect.
func (s *scene) work() (stop func(context.Context) error) {
	s.Helper()
	var handlers outbox.Handlers
	if s.phase.step == handler {
		outbox.HandleTx(&handlers, happened, func(ctx context.Context, tx pgx.Tx, _ event.Event[load]) error {
			s.begun.Add(1)
			_, err := tx.Exec(ctx, leaveEffect)
			return err
		})
	} else {
		outbox.Handle(&handlers, happened, s.handle)
	}
	return s.worker(s.spot, &handlers, outbox.Config{Lease: 30 * time.Second, PollInterval: 100 * time.Millisecond, Pause: time.Second})
}

const leaveEffect = `insert into public.effects default values`

func (s *scene) handle(ctx context.Context, _ event.Event[load]) error {
	s.begun.Add(1)
	switch s.phase.step {
	case start:
		s.spot.hold()
		<-s.finish
	case extend:
		<-s.finish
	case release:
		select {
		case <-s.finish:
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
	}
	_, err := s.pool.Exec(context.WithoutCancel(ctx), leaveEffect)
	return err
}

// wait polls a fact of this process.
func (r *rig) wait(fact func() bool) {
	r.Helper()
	for deadline := time.Now().Add(patience); !fact(); r.until(`true`) {
		if time.Now().After(deadline) {
			r.Fatal(errTimeout)
		}
	}
}
