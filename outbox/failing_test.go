package outbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

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
			if !strings.Contains(text, words) || n < 3 && !strings.Contains(text, "failing_test.go") || len(text) > 2000 {
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
