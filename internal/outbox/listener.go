package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// alarm tells the claim loop that there may be work.
type alarm struct {
	rung chan struct{}
	// heard is true while notifications of producers ring it.
	heard atomic.Bool
}

func newAlarm() *alarm { return &alarm{rung: make(chan struct{}, 1)} }

// listener hears the NOTIFY of producers on a connection of its own, and says when it cannot: behind a pooler
// that hands out a different session for each transaction, LISTEN succeeds and nothing is ever heard.
type listener struct {
	connect func(context.Context) (*pgx.Conn, error)
	rail    rail
	types   []string
	log     *slog.Logger
	alarm   *alarm
	// patience is how long it waits to hear itself, interval how often it makes sure that it still does.
	patience, interval time.Duration
	deaf               streak
	// tried is closed once it is known whether a session can stand for the worker.
	tried chan struct{}
	once  sync.Once
}

func newListener(connect func(context.Context) (*pgx.Conn, error), rail rail, cfg Config, alarm *alarm) *listener {
	return &listener{connect: connect, rail: rail, types: cfg.Types, log: cfg.Logger, alarm: alarm,
		patience: 3 * time.Second, interval: 30 * time.Second,
		tried: make(chan struct{})}
}

func (l *listener) settle() { l.once.Do(func() { close(l.tried) }) }

var errDeaf = errors.New("outbox: no notification can be heard, as behind a transaction pooler")

// run listens until ctx ends, connecting anew with growing pauses. Whenever hearing begins or ends the claim loop is
// woken once: something may have been missed.
func (l *listener) run(ctx context.Context) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = 100*time.Millisecond, 30*time.Second
	for ctx.Err() == nil {
		err := l.listen(ctx, pace.Reset)
		l.settle()
		l.alarm.heard.Store(false)
		nudge(l.alarm.rung)
		if ctx.Err() != nil {
			return
		}
		l.deaf.note(l.log, err, "outbox: not listening, polling alone finds new events")
		within(pace.NextBackOff(), ctx.Done(), nil)
	}
}

// listen calls hears whenever it has heard itself.
func (l *listener) listen(ctx context.Context, hears func()) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN outbox_events"); err != nil {
		return err
	}
	for {
		if err := l.test(ctx, conn); err != nil {
			return err
		}
		// Only where a session is ours for good: it stands for the worker's life. And again now and then, for a worker that
		// was taken for dead while it was cut off, or whose last session took long to end.
		if err := l.rail.appear(ctx, conn, l.types); err != nil {
			return err
		}
		l.settle()
		hears()
		l.deaf.note(l.log, nil, "outbox: not listening, polling alone finds new events")
		if !l.alarm.heard.Swap(true) {
			nudge(l.alarm.rung)
		}
		if err := l.hear(ctx, conn); err != nil {
			return err
		}
	}
}

// test sends a notification from another session, as a producer would, and waits for it.
func (l *listener) test(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.patience, errDeaf)
	defer cancel()
	probe := uuid.NewString()
	if err := l.rail.notifySelf(ctx, probe); err != nil {
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
		l.ring(ctx, notification)
	}
}

// hear passes notifications on until it is time for the next test: a connection that has died without a word is as silent
// as an idle one.
func (l *listener) hear(ctx context.Context, conn *pgx.Conn) error {
	quiet, cancel := context.WithTimeout(ctx, l.interval)
	defer cancel()
	for {
		notification, err := conn.WaitForNotification(quiet)
		switch {
		case err == nil:
			l.ring(ctx, notification)
		case quiet.Err() != nil && !conn.IsClosed():
			return ctx.Err()
		default:
			return err
		}
	}
}

// ring wakes the claim loop. As long as the workers look by themselves producers need not notify; that is said here and at
// once, since the claim loop may be busy, and by the time it said so others could have gone to sleep.
func (l *listener) ring(ctx context.Context, notification *pgconn.Notification) {
	if notification.Payload != "" {
		return
	}
	nudge(l.alarm.rung)
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := l.rail.stayAwake(call); err != nil {
		l.log.Debug("outbox: producers go on notifying", "error", err)
	}
}
