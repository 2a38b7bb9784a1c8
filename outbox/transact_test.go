package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

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
