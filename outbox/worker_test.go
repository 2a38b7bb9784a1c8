package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

func TestWorkerKeepsTheOrderOfEveryAggregate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var drafts []event.Draft
	for i := range 600 {
		drafts = append(drafts, []event.Definition[payload]{typeA, typeB}[i/7%2].New("order", agg(i%40), uuid.NewString(), payload{i}))
	}
	r.enqueue(drafts...)
	var mu sync.Mutex
	seen := map[uuid.UUID][]int{}
	flying := map[uuid.UUID]int{}
	fn := func(_ context.Context, e event.Event[payload]) error {
		mu.Lock()
		defer mu.Unlock()
		if flying[e.AggregateID]++; flying[e.AggregateID] > 1 {
			t.Errorf("two of one aggregate at once")
		}
		// Each fifth fails at first, and those behind it wait.
		if e.Payload.N%5 == 0 && e.Attempt == 1 {
			flying[e.AggregateID]--
			return event.RetryAfter(0, errors.New("once more"))
		}
		seen[e.AggregateID] = append(seen[e.AggregateID], e.Payload.N)
		flying[e.AggregateID]--
		return nil
	}
	h := register(typeA, fn)
	outbox.Handle(h, typeB, fn)
	for range 3 {
		r.work(h, outbox.Config{})
	}
	r.done()
	mu.Lock()
	defer mu.Unlock()
	for id, order := range seen {
		if !slices.IsSorted(order) || len(order) != 15 {
			t.Errorf("%v: %v", id, order)
		}
	}
}

// The envelope brings what was drafted, and counts the attempts.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.enqueue(typeA.New("order", agg(7), "the key", payload{42}).WithMetadata("tenant", "x"))[0]
	got := make(chan event.Event[payload], 2)
	r.work(register(typeA, func(_ context.Context, e event.Event[payload]) error {
		got <- e
		if e.Attempt == 1 {
			return event.RetryAfter(0, errors.New("once more"))
		}
		return nil
	}), outbox.Config{})
	for attempt := 1; attempt <= 2; attempt++ {
		e := receive(t, got)
		if e.ID != id || e.EventType != "a" || e.IdempotencyKey != "the key" || e.AggregateType != "order" || e.AggregateID != agg(7) ||
			e.Attempt != attempt || e.Payload.N != 42 || string(e.Envelope.Payload) != `{"n": 42}` || !strings.Contains(string(e.Metadata), `"tenant": "x"`) {
			t.Errorf("%+v %s %s", e, e.Envelope.Payload, e.Metadata)
		}
		if e.CreatedAt.Location() != time.UTC || time.Since(e.CreatedAt).Abs() > time.Hour {
			t.Errorf("created at %v", e.CreatedAt)
		}
	}
	r.done()
}

// Case P1: what does not decode is discarded at once, counted apart, and reaches no handler.
func TestP1_UndecodableIsDiscardedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad := draft(typeA, 1)
	bad.Payload = []byte(`{"n": "hunter2"}`)
	badTx := draft(typeB, 2)
	badTx.Payload = []byte(`["hunter2"]`)
	r.enqueue(bad, badTx, draft(typeA, 1))
	h := register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if e.Payload.N != 1 {
			t.Errorf("reached the handler: %+v", e)
		}
		return nil
	})
	handleTx(h, typeB, func(context.Context, tx, event.Event[payload]) error {
		t.Error("reached the handler")
		return nil
	})
	w := r.work(h, outbox.Config{})
	r.done()
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'discarded' and attempts = 1 and metadata ->> 'discardReason' = 'undecodable'
		and error not like '%hunter2%'`); n != 2 {
		t.Errorf("%d of 2 discarded as undecodable", n)
	}
	if r.check(w.stop(t)); w.log.has("hunter2") {
		t.Errorf("the log repeats the payload: %s", w.log)
	}
}

// A type that halts on discard: its aggregate stands still, the others go on, and resuming lets it go.
func TestHaltingPolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.check(outbox.SetPolicy(t.Context(), r.db.Pool, outbox.Policy{EventType: "a", OnDiscard: outbox.Halt}))
	got := make(chan int, 10)
	h := register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if e.IdempotencyKey == "bad" {
			return event.Discard(errors.New("cannot be"))
		}
		got <- e.Payload.N
		return nil
	})
	r.work(h, outbox.Config{PollInterval: 20 * time.Millisecond})
	r.enqueue(typeA.New("order", agg(1), "bad", payload{1}), draft(typeA, 1), draft(typeA, 2))
	if n := receive(t, got); n != 2 {
		t.Errorf("aggregate %d moved", n)
	}
	r.until(`exists (select from public.outbox_halted_aggregates)`)
	halted, err := outbox.Halted(t.Context(), r.db.Pool, 10)
	if err != nil || len(halted) != 1 || halted[0].AggregateID != agg(1) || halted[0].EventType != "a" || halted[0].Reason != "permanent_error" {
		t.Errorf("%+v, %v", halted, err)
	}
	if resumed, err := outbox.Resume(t.Context(), r.db.Pool, "order", agg(1)); err != nil || !resumed {
		t.Errorf("resumed %v, %v", resumed, err)
	}
	if n := receive(t, got); n != 1 {
		t.Errorf("aggregate %d moved", n)
	}
	r.done()
}

// Case O8: another consumer's types overtake nothing and are overtaken by nobody, unless that is asked for.
func TestO8_OtherConsumersAreAnExplicitChoice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := make(chan int, 10)
	fn := func(_ context.Context, e event.Event[payload]) error {
		got <- e.Payload.N
		return nil
	}
	r.enqueue(draft(typeB, 1), draft(typeA, 1), draft(typeA, 2))
	strict := r.work(register(typeA, fn), outbox.Config{PollInterval: 20 * time.Millisecond})
	if n := receive(t, got); n != 2 {
		t.Errorf("aggregate %d overtook an older event of a type nobody here handles", n)
	}
	r.check(strict.stop(t))
	r.work(register(typeA, fn), outbox.Config{OtherConsumers: []string{"b"}})
	if n := receive(t, got); n != 1 {
		t.Errorf("got aggregate %d", n)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where event_type = 'b' and status = 'pending' and attempts = 0`); n != 1 {
		t.Error("the other consumer's event was touched")
	}
}

// Middleware wraps every handler, the first one outermost, and decides with its error.
func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 1))
	var mu sync.Mutex
	var steps []string
	step := func(s string) { mu.Lock(); defer mu.Unlock(); steps = append(steps, s) }
	named := func(name string) event.Middleware {
		return func(next event.Handler) event.Handler {
			return func(ctx context.Context, e event.Envelope) error {
				step(name + ">" + e.EventType)
				err := next(ctx, e)
				step("<" + name)
				return err
			}
		}
	}
	h := register(typeA, func(context.Context, event.Event[payload]) error { step("a"); return nil })
	handleTx(h, typeB, func(context.Context, tx, event.Event[payload]) error { step("b"); return nil })
	h.Use(named("1"), named("2"))
	h.Use(named("3"))
	r.work(h, outbox.Config{})
	r.done()
	mu.Lock()
	defer mu.Unlock()
	want := strings.Fields("1>a 2>a 3>a a <3 <2 <1 1>b 2>b 3>b b <3 <2 <1")
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
}

// Case G3: four handlers with a connection each of a pool of four, all at once: nothing waits for the pool to acknowledge.
func TestG3_HandlersMayExhaustThePool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	small := r.pool(func(c *pgxpool.Config) { c.MaxConns = 4 })
	r.enqueue(draft(typeA, 1), draft(typeA, 2), draft(typeA, 3), draft(typeA, 4), draft(typeA, 5))
	var together sync.WaitGroup
	together.Add(4)
	var n atomic.Int32
	w := r.workOn(&pgtest.DB{Pool: small}, register(typeA, func(ctx context.Context, _ event.Event[payload]) error {
		if n.Add(1) > 4 {
			return nil
		}
		conn, err := small.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		together.Done()
		together.Wait()
		// The fifth is claimed, handled and acknowledged while all four are taken.
		r.until(`exists (select from public.outbox_events where status = 'processed')`)
		return nil
	}), outbox.Config{})
	r.done()
	r.check(w.stop(t))
}

// Case G4 in public: whatever ends a handler, also inside a transaction, is on record, and the slot comes back.
func TestG4_PanicAndGoexit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`create table public.effects (n integer)`)
	ends := map[int]func(){1: func() { panic(errors.New("an error")) }, 2: func() { panic(nil) }, 3: goexit}
	var drafts []event.Draft
	for n := range ends {
		drafts = append(drafts, draft(typeA, n), draft(typeB, 10+n))
	}
	r.enqueue(drafts...)
	h := register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if e.Attempt == 1 {
			ends[e.Payload.N]()
		}
		return nil
	})
	handleTx(h, typeB, func(ctx context.Context, tx tx, e event.Event[payload]) error {
		if _, err := tx.Exec(ctx, `insert into public.effects values ($1)`, e.Payload.N); err != nil {
			return err
		}
		if e.Attempt == 1 {
			ends[e.Payload.N-10]()
		}
		return nil
	})
	r.work(h, outbox.Config{Concurrency: 1})
	r.until(`(select count(*) = 6 from public.outbox_events where status = 'failed' and attempts = 1)`)
	for n, words := range map[int]string{1: "panic: an error", 2: "nil", 3: "runtime.Goexit"} {
		for _, at := range []int{n, n + 10} {
			text := value[string](r, `select error from public.outbox_events where aggregate_id = $1`, agg(at))
			if !strings.Contains(text, words) || n < 3 && !strings.Contains(text, "worker_test.go") || len(text) > 2000 {
				t.Errorf("%d: %q", at, text)
			}
		}
	}
	if value[int](r, `select count(*) from public.effects`) != 0 {
		t.Error("effects of handlers that did not return stand")
	}
	r.exec(`update public.outbox_events set available_at = clock_timestamp()`)
	r.done()
	if n := value[int](r, `select count(distinct n) from public.effects`); n != 3 || value[int](r, `select count(*) from public.effects`) != 3 {
		t.Errorf("%d effects, want one of each", n)
	}
}

// An idle worker is asleep in outbox_rail; an insert notifies, and the handler runs although the next poll is far away.
func TestWakeUpByNotify(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := make(chan int, 1)
	r.work(register(typeA, func(_ context.Context, e event.Event[payload]) error { got <- e.Payload.N; return nil }),
		outbox.Config{PollInterval: time.Minute})
	ear := r.db.Connect(t)
	if _, err := ear.Exec(t.Context(), `listen outbox_events`); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		r.until(`(select asleep from public.outbox_rail)`)
		r.enqueue(draft(typeA, n))
		heard, err := ear.WaitForNotification(t.Context())
		for err == nil && heard.Payload != "" { // the listener's tests of itself
			heard, err = ear.WaitForNotification(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if m := receive(t, got); m != n {
			t.Errorf("got %d, want %d", m, n)
		}
		r.done()
	}
}

// Many workers start and stop at random moments while events flow: nothing is lost, nothing runs twice at once, no
// session and no goroutine stays behind, and no attempt is spent.
func TestStartStopStorm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const rounds, together, events = 6, 5, 600
	var handled atomic.Int32
	fn := func(context.Context, event.Event[payload]) error { handled.Add(1); return nil }
	var producers sync.WaitGroup
	producers.Go(func() {
		for n := range events / 20 {
			var drafts []event.Draft
			for i := range 20 {
				drafts = append(drafts, draft(typeA, n*7%31+i))
			}
			r.enqueue(drafts...)
		}
	})
	for round := range rounds {
		var workers []*running
		for range together {
			workers = append(workers, r.workOn(r.db, register(typeA, fn), outbox.Config{Concurrency: 1 + round*4}))
		}
		// Not a time but an amount of work later, and in the first rounds none at all.
		for before := handled.Load(); handled.Load() < before+int32(round*10) && handled.Load() < events; {
			value[int](r, `select 1`)
		}
		var stops sync.WaitGroup
		for _, w := range workers {
			stops.Go(func() {
				if err := w.stop(r.TB); err != nil {
					r.Errorf("%v\n%s", err, w.log)
				}
			})
		}
		stops.Wait()
	}
	producers.Wait()
	r.work(register(typeA, fn), outbox.Config{})
	r.done()
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'processed' and attempts = 1`); n != events || handled.Load() != events {
		t.Errorf("%d of %d processed at the first attempt, handled %d times", n, events, handled.Load())
	}
}

// After Stop the caller's pool works, and the worker's own sessions are gone.
func TestStopLeavesThePoolAndNoSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const sessions = `(select count(*) from pg_stat_activity where datname = current_database() and application_name = 'pgrail worker')`
	r.enqueue(draft(typeA, 1))
	w := r.work(oneHandler(), outbox.Config{})
	r.done()
	r.until(`exists (select from public.outbox_workers)`)
	if n := value[int](r, `select `+sessions); n < 2 || n > 5 {
		t.Errorf("%d sessions at work, want 2 to 5", n)
	}
	r.check(w.stop(t))
	r.until(sessions + ` = 0`)
	r.enqueue(draft(typeA, 2))
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'pending'`); n != 1 {
		t.Error("the pool is no longer usable")
	}
}

// Case G2 in public: Stop returns soon after its deadline, names what runs, and leaves what had not started to others.
func TestG2_HandlerIgnoresItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.enqueue(draft(typeA, 1), draft(typeA, 2), draft(typeA, 1))
	release, ended, causes := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	w := r.workOn(r.db, register(typeA, func(ctx context.Context, e event.Event[payload]) error {
		defer func() { ended <- struct{}{} }()
		causes <- nil
		<-release
		causes <- context.Cause(ctx)
		return nil
	}), outbox.Config{Concurrency: 1, StopTimeout: time.Hour})
	receive(t, causes)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.Stop(ctx)
	var left *outbox.StopError
	if !errors.As(err, &left) || len(left.Running) != 1 || len(left.Unsettled) != 0 || !slices.Contains(ids, left.Running[0]) || left.Error() == "" {
		t.Errorf("%v: %+v", err, left)
	}
	if again := w.Stop(t.Context()); again != err {
		t.Errorf("a second Stop: %v", again)
	}
	if err := w.ended(t); !errors.As(err, &left) {
		t.Errorf("Run: %v", err)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where status = 'pending' and attempts = 0`); n != 2 {
		t.Errorf("%d of the 2 unstarted events are free and unspent", n)
	}
	r.enqueue(draft(typeA, 9))
	close(release)
	receive(t, ended)
	if cause := receive(t, causes); !errors.Is(cause, outbox.ErrStopping) {
		t.Errorf("cause %v", cause)
	}
}

// Case G1 in public: Run's own context ends just before the handler returns.
func TestG1_AckLandsAfterSIGTERM(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 2))
	ctx, sigterm := context.WithCancel(t.Context())
	h := register(typeA, func(handling context.Context, _ event.Event[payload]) error { sigterm(); return handling.Err() })
	handleTx(h, typeB, func(handling context.Context, _ tx, _ event.Event[payload]) error { sigterm(); return handling.Err() })
	worker, err := outbox.NewWorker(r.db.Pool, h, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := value[string](r, `select string_agg(status || ' ' || attempts, ', ') from public.outbox_events`); got != "processed 1, processed 1" {
		t.Error(got)
	}
}

// Case D1 in public: what stops a worker matches the package's errors.
func TestD1_WhatStopsAWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts   []pgtest.Option
		breaks string
		want   error
	}{
		"not migrated": {[]pgtest.Option{pgtest.Empty()}, `select 1`, outbox.ErrNotMigrated},
		"no right":     {nil, `revoke execute on all functions in schema public from current_user; revoke execute on all functions in schema public from public`, outbox.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.opts...)
			pool := r.db.Pool
			if c.want == outbox.ErrPermission {
				role := "weak_" + strings.ReplaceAll(uuid.NewString(), "-", "")
				// Where the server asks for a password, it is the one that its tests use.
				password := r.db.Pool.Config().ConnConfig.Password
				r.exec(`create role ` + role + ` login password '` + strings.ReplaceAll(password, `'`, `''`) + `'`)
				defer r.exec(`drop role ` + role)
				pool = r.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role })
			}
			w := r.workOn(&pgtest.DB{Pool: pool}, oneHandler(), outbox.Config{})
			if err := w.ended(t); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err := w.Stop(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("Stop: %v, want %v", err, c.want)
			}
		})
	}
}

// Case P6 in public: a downstream that refuses connections. Its events are snoozed and unspent, the other type flows, and
// when it is back all of them arrive, in order.
func TestP6_DownstreamOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var back atomic.Bool
	var mu sync.Mutex
	var order []int
	h := register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if !back.Load() {
			return outages[e.Payload.N%len(outages)]
		}
		mu.Lock()
		defer mu.Unlock()
		order = append(order, e.Payload.N)
		return nil
	})
	outbox.Handle(h, typeB, nop)
	w := r.work(h, outbox.Config{Pause: time.Second, PollInterval: 50 * time.Millisecond})
	var drafts []event.Draft
	for n := range 2 * len(outages) {
		drafts = append(drafts, typeA.New("order", agg(n%len(outages)), uuid.NewString(), payload{n}))
	}
	r.enqueue(drafts...)
	r.until(`(select count(*) > 0 from public.outbox_events where event_type = 'a' and status = 'failed' and metadata ->> 'snoozeCount' = '1')`)
	for n := range 20 {
		r.enqueue(draft(typeB, 100+n))
	}
	r.until(`(select count(*) = 20 from public.outbox_events where event_type = 'b' and status = 'processed')`)
	if n := value[int](r, `select coalesce(max(attempts), 0) from public.outbox_events where event_type = 'a' and status <> 'processing'`); n != 0 {
		t.Errorf("%d attempts spent on an outage", n)
	}
	back.Store(true)
	r.done()
	r.check(w.stop(t))
	if n := value[int](r, `select count(*) from public.outbox_events where event_type = 'a' and attempts = 1`); n != 2*len(outages) {
		t.Errorf("%d of %d took one attempt", n, 2*len(outages))
	}
	place := map[int]int{}
	for i, n := range order {
		place[n] = i
	}
	for n := range len(outages) {
		if place[n] > place[n+len(outages)] {
			t.Errorf("%d came after %d", n, n+len(outages))
		}
	}
	if !w.log.has("its event type pauses") {
		t.Errorf("the log does not tell: %s", w.log)
	}
}
