package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// listener hears the NOTIFY of producers on a connection of its own, and says when it cannot: behind a pooler
// that hands out a different session for each transaction, LISTEN succeeds and nothing is ever heard.
type listener struct {
	config *pgx.ConnConfig
	store  *store
	types  []string
	log    *slog.Logger
	woken  chan struct{}
	hears  atomic.Bool
}

// selfTest is how long the listener waits to hear itself.
const selfTest = 3 * time.Second

var errDeaf = errors.New("outbox: LISTEN succeeded but its own notification did not arrive; is there a transaction pooler in between? Polling takes over")

// run listens until ctx ends, connecting anew with growing pauses. Whenever hearing begins or ends the claim loop is
// woken once: something may have been missed.
func (l *listener) run(ctx context.Context) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = 100*time.Millisecond, 30*time.Second
	for ctx.Err() == nil {
		started := time.Now()
		err := l.listen(ctx)
		l.hears.Store(false)
		l.wake()
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > pace.MaxInterval {
			pace.Reset()
		}
		pause := pace.NextBackOff()
		l.log.Warn("outbox: not listening, polling alone finds new events", "retry_in", pause, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (l *listener) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN outbox_events"); err != nil {
		return err
	}
	if err := l.test(ctx, conn); err != nil {
		return err
	}
	// Only where a session is ours for good: it stands for the worker's life.
	if err := l.store.appear(ctx, conn, l.types); err != nil {
		return err
	}
	l.hears.Store(true)
	l.wake()
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if notification.Payload == "" {
			l.wake()
		}
	}
}

// test sends a notification from another session, as a producer would, and waits for it.
func (l *listener) test(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, selfTest, errDeaf)
	defer cancel()
	probe := uuid.NewString()
	if err := l.store.notifySelf(ctx, probe); err != nil {
		return err
	}
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if notification.Payload == probe {
			return nil
		}
		l.wake()
	}
}

func (l *listener) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}
