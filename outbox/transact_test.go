package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	internal "github.com/openlup/pgrail/internal/outbox"
	"github.com/openlup/pgrail/internal/outbox/faulty"
	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// effect is what transactional handlers do: one row per event. No key stops them from doing it twice.
func effect(ctx context.Context, tx tx, e event.Event[payload]) error {
	_, err := tx.Exec(ctx, `insert into public.effects values ($1)`, e.Payload.N)
	return err
}

func newEffectsRig(t *testing.T, opts ...pgtest.Option) *rig {
	t.Helper()
	r := newRig(t, opts...)
	r.exec(`create table public.effects (n integer)`)
	return r
}

// once wants one effect and one processed event, at the given attempt.
func (r *rig) onceAt(attempt int) {
	r.Helper()
	r.done()
	if n := value[int](r, `select count(*) from public.effects`); n != 1 {
		r.Errorf("%d effects", n)
	}
	if got := value[string](r, `select status || ' ' || attempts from public.outbox_events`); got != fmt.Sprint("processed ", attempt) {
		r.Errorf("%s, want attempt %d", got, attempt)
	}
}

// soon makes a failed event due again.
func (r *rig) soon() {
	r.Helper()
	r.until(`exists (select from public.outbox_events where status = 'failed')`)
	r.exec(`update public.outbox_events set available_at = clock_timestamp() where status = 'failed'`)
}

func inTx(fn func(context.Context, tx, event.Event[payload]) error) *outbox.Handlers {
	var h outbox.Handlers
	handleTx(&h, typeA, fn)
	return &h
}

func TestHandleTxCommitsEffectAndAck(t *testing.T) {
	t.Parallel()
	// Whatever the role's defaults are.
	r := newEffectsRig(t, pgtest.Setting("default_transaction_isolation", "serializable"))
	r.enqueue(draft(typeA, 1))
	r.work(inTx(effect), outbox.Config{})
	r.onceAt(1)
}

func TestHandleTxRollsBackWithItsError(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1))
	r.work(inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error {
		if err := effect(ctx, tx, e); err != nil || e.Attempt > 1 {
			return err
		}
		return errors.New("second thoughts")
	}), outbox.Config{PollInterval: 20 * time.Millisecond})
	r.soon()
	r.onceAt(2)
}

// A statement failed and the handler did not notice: the transaction cannot commit, and the event is tried again.
func TestHandleTxWithASwallowedError(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1))
	r.work(inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error {
		if e.Attempt == 1 {
			_, _ = tx.Exec(ctx, `select 1 / 0`)
			return nil
		}
		return effect(ctx, tx, e)
	}), outbox.Config{PollInterval: 20 * time.Millisecond})
	r.soon()
	r.onceAt(2)
}

// The lease is lost while the handler works: its effects go with it.
func TestHandleTxRollsBackWithoutItsLease(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1))
	settled := make(chan struct{})
	w := r.work(inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error {
		defer close(settled)
		r.exec(`update public.outbox_events set metadata = metadata || '{"claimToken": "another"}'`)
		return effect(ctx, tx, e)
	}), outbox.Config{})
	receive(t, settled)
	r.check(w.stop(t))
	if got := value[string](r, `select status || ' ' || (metadata ->> 'claimToken') from public.outbox_events`); got != "processing another" {
		t.Errorf("the other's event is %s", got)
	}
	if n := value[int](r, `select count(*) from public.effects`); n != 0 {
		t.Errorf("%d effects", n)
	}
	if !w.log.has("lease was lost") {
		t.Errorf("the log does not tell: %s", w.log)
	}
}

// The commit's reply is lost after it took effect: the event has been processed, and its handler does not run again.
func TestHandleTxCommitReplyLost(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	line := &faulty.Line{}
	pool := r.pool(func(c *pgxpool.Config) { line.Lay(c.ConnConfig) })
	r.enqueue(draft(typeA, 1))
	var handled atomic.Int32
	line.LoseReplies("commit", 1)
	w := r.workOn(&pgtest.DB{Pool: pool}, inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error {
		handled.Add(1)
		return effect(ctx, tx, e)
	}), outbox.Config{})
	r.onceAt(1)
	r.check(w.stop(t))
	if line.Lost() != 1 || handled.Load() != 1 {
		t.Errorf("%d replies lost, handled %d times", line.Lost(), handled.Load())
	}
}

// The session ends before the commit: nothing took effect, and the next attempt does it once.
func TestHandleTxSessionLostBeforeCommit(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1))
	r.work(inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error {
		if err := effect(ctx, tx, e); err != nil || e.Attempt > 1 {
			return err
		}
		r.exec(`select pg_terminate_backend($1)`, tx.Conn().PgConn().PID())
		return nil
	}), outbox.Config{PollInterval: 20 * time.Millisecond})
	r.soon()
	r.onceAt(2)
}

// What the handler asked for counts even when the rollback fails.
func TestHandleTxOutcomeSurvivesAFailedRollback(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1))
	r.work(inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error {
		r.exec(`select pg_terminate_backend($1)`, tx.Conn().PgConn().PID())
		return event.Discard(errors.New("on purpose"))
	}), outbox.Config{})
	r.done()
	if got := value[string](r, `select status || ' ' || (metadata ->> 'discardReason') || ' ' || error from public.outbox_events`); got != "discarded permanent_error discard: on purpose" {
		t.Error(got)
	}
}

// A handler that ends the transaction itself is told so, and nothing of it stands.
func TestHandleTxKeepsTheTransaction(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, tx) error{
		"commit":   func(ctx context.Context, tx tx) error { return tx.Commit(ctx) },
		"rollback": func(ctx context.Context, tx tx) error { return tx.Rollback(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEffectsRig(t)
			r.enqueue(draft(typeA, 1))
			r.work(inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error {
				if err := effect(ctx, tx, e); err != nil || e.Attempt > 1 {
					return err
				}
				if err := end(ctx, tx); err == nil {
					t.Error("the handler ended the transaction")
				}
				return nil
			}), outbox.Config{PollInterval: 20 * time.Millisecond})
			r.until(`(select error like '%the transaction given to a handler ends with it%' from public.outbox_events)`)
			r.soon()
			r.onceAt(2)
		})
	}
}

// Savepoints are the handler's own affair.
func TestHandleTxAllowsSavepoints(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1))
	r.work(inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error {
		undone, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		if err := effect(ctx, undone, e); err != nil {
			return err
		}
		if err := undone.Rollback(ctx); err != nil {
			return err
		}
		return effect(ctx, tx, e)
	}), outbox.Config{})
	r.onceAt(1)
}

// A middleware that cuts the context off is told so by name, instead of a panic about an interface.
func TestMiddlewareMustPassItsContextOn(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1))
	h := inTx(effect)
	h.Use(func(next event.Handler) event.Handler {
		return func(_ context.Context, e event.Envelope) error { return next(context.Background(), e) }
	})
	r.work(h, outbox.Config{})
	r.until(`(select status = 'failed' and error like '%middleware%context%' from public.outbox_events)`)
}

// A middleware decides: an error that it swallows is a success, and one that it adds after the commit changes nothing.
func TestMiddlewareDecides(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 2))
	h := inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error { return errors.New("swallowed") })
	handleTx(h, typeB, effect)
	h.Use(func(next event.Handler) event.Handler {
		return func(ctx context.Context, e event.Envelope) error {
			if err := next(ctx, e); err == nil {
				return errors.New("too late")
			}
			return nil
		}
	})
	r.work(h, outbox.Config{})
	r.done()
	if got := value[string](r, `select string_agg(status || ' ' || attempts, ', ') from public.outbox_events`); got != "processed 1, processed 1" {
		t.Error(got)
	}
	if n := value[int](r, `select count(*) from public.effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// Every error a handler can end with, and what becomes of the event.
func TestOutcomesOfErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	day := 24 * time.Hour
	type result = internal.Result
	for name, c := range map[string]struct {
		err  error
		want result
	}{
		"nil":                  {nil, result{Outcome: internal.Processed}},
		"any":                  {cause, result{Outcome: internal.Retry, Delay: -1}},
		"discard":              {event.Discard(cause), result{Outcome: internal.Discard, Delay: -1}},
		"wrapped discard":      {fmt.Errorf("x: %w", event.Discard(cause)), result{Outcome: internal.Discard, Delay: -1}},
		"undecodable":          {fmt.Errorf("x: %w", event.ErrUndecodable), result{Outcome: internal.Discard, Reason: "undecodable", Delay: -1}},
		"snooze":               {event.Snooze(day, cause), result{Outcome: internal.Snooze, Delay: day}},
		"snooze by default":    {event.Snooze(0, cause), result{Outcome: internal.Snooze, Delay: -1}},
		"snooze for no time":   {event.Snooze(-1, cause), result{Outcome: internal.Snooze, Delay: -1}},
		"retry after":          {event.RetryAfter(day, cause), result{Outcome: internal.Retry, Delay: day}},
		"retry at once":        {event.RetryAfter(0, cause), result{Outcome: internal.Retry}},
		"retry in the past":    {event.RetryAfter(-day, cause), result{Outcome: internal.Retry}},
		"unavailable":          {event.Unavailable(cause), result{Outcome: internal.Snooze, Delay: -1, Unavailable: true}},
		"refused":              {fmt.Errorf("x: %w", syscall.ECONNREFUSED), result{Outcome: internal.Snooze, Delay: -1, Unavailable: true}},
		"deadline":             {context.DeadlineExceeded, result{Outcome: internal.Snooze, Delay: -1, Unavailable: true}},
		"cancelled":            {context.Canceled, result{Outcome: internal.Retry, Delay: -1}},
		"purpose before looks": {event.RetryAfter(day, context.DeadlineExceeded), result{Outcome: internal.Retry, Delay: day}},
		"discard before looks": {event.Discard(syscall.ECONNREFUSED), result{Outcome: internal.Discard, Delay: -1}},
		"joined":               {errors.Join(io.EOF, event.Snooze(day, nil)), result{Outcome: internal.Snooze, Delay: day}},
	} {
		got := outbox.ToResult(c.err)
		if c.err != nil && got.Error != c.err.Error() {
			t.Errorf("%s: the text is %q", name, got.Error)
		}
		got.Error = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Delays beyond what the table takes are cut, not wrapped round.
func TestAbsurdDelays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 2))
	h := register(typeA, func(context.Context, event.Event[payload]) error { return event.RetryAfter(1<<63-1, nil) })
	outbox.Handle(h, typeB, func(context.Context, event.Event[payload]) error { return event.Snooze(1<<63-1, nil) })
	r.work(h, outbox.Config{})
	r.until(`(select count(*) = 2 from public.outbox_events where status = 'failed'
		and available_at between clock_timestamp() + interval '23 hours 59 minutes' and clock_timestamp() + interval '24 hours')`)
}

// Case D5: an error text that Postgres would not take is cleaned, so that the failure is recorded all the same.
func TestD5_HandlersWithOddErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	texts := []string{"nul \x00", "bad \xff utf8", strings.Repeat("long ü", 100_000), "", "quote ' \\ \""}
	var drafts []event.Draft
	for n := range texts {
		drafts = append(drafts, draft(typeA, n))
	}
	r.enqueue(drafts...)
	w := r.work(register(typeA, func(_ context.Context, e event.Event[payload]) error { return errors.New(texts[e.Payload.N]) }), outbox.Config{})
	r.until(`(select count(*) = 5 from public.outbox_events where status = 'failed' and attempts = 1)`)
	if n := value[int](r, `select max(length(error)) from public.outbox_events`); n != 2000 {
		t.Errorf("the longest has %d characters", n)
	}
	r.check(w.stop(t))
	if w.log.has("cannot be stored") {
		t.Errorf("%s", w.log)
	}
}
