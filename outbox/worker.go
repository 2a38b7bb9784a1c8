package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	internal "github.com/openlup/pgrail/internal/outbox"
)

// Config tunes a [Worker]. The zero value of a field means its default; a value out of range is refused by
// [NewWorker], never adjusted.
type Config struct {
	// Concurrency is how many handlers run at once; 1 to 10000, default 1000. No more events are claimed than can be
	// started. Lower it to what the handlers' downstream can take.
	Concurrency int
	// Lease is how long a claimed event stays this worker's without a sign of life; 30 s to 1 h, default 5 min.
	// Running handlers have theirs extended, so it bounds not their time but how long a crash delays an event.
	Lease time.Duration
	// MaxAttempts is after how many failures an event is discarded; 1 to 20, default 8. It counts for what this worker's
	// handlers fail on: another worker with a higher one may have tried an event more often, and then it gets one more try
	// here before it is discarded. A [Policy] of the event's type overrules it for all workers.
	MaxAttempts int
	// BaseDelay is the backoff after the first failure; it doubles up to MaxDelay and is jittered down to a half.
	// 5 s to 1 h, default 1 min.
	BaseDelay time.Duration
	// MaxDelay bounds the backoff; BaseDelay to 24 h, default 1 h.
	MaxDelay time.Duration
	// Snooze is how long a snoozed event waits when the handler did not say; 1 min to 1 h, default 5 min.
	Snooze time.Duration
	// MaxSnoozes is how often an event may be snoozed before it is discarded with reason "max_snoozes"; 1 to 100000, default
	// 1000: at five minutes each, which is the default Snooze and what an outage comes to with its growing pauses, three and a
	// half days. A [Policy] that limits the snoozes of the event's type overrules it.
	MaxSnoozes int
	// PollInterval is the longest pause between two looks at an empty queue; 10 ms to 1 min, default 1 s. Where
	// LISTEN works new events are noticed at once; retries and scheduled ones are noticed by polling.
	PollInterval time.Duration
	// Pause is how long an event type rests when its downstream is out, which two events in a row have to tell, at first; it
	// doubles up to 5 min. Each event is also put off by that pause, twice as long with each snooze. 1 s to 5 min, default 5 s.
	Pause time.Duration
	// StopTimeout is how long stopping waits for running handlers before it cancels them; 1 ms to 1 h, default 30 s.
	StopTimeout time.Duration
	// Retain is how long a processed event is kept, and with it its idempotency key, by which duplicates are recognised;
	// 1 h to 87600 h (10 years), default for ever. The workers delete older ones in the background, one worker at a time.
	Retain time.Duration
	// RetainDiscarded is how long a discarded event is kept, counted from when it was written; 1 h to 87600 h, default for
	// ever. It takes Retain beside it. What halts its aggregate is kept in any case.
	RetainDiscarded time.Duration
	// OtherConsumers are event types that someone else handles and that may be overtaken: an older event of such a
	// type does not hold up this worker's events of the same aggregate. Leave it empty to keep the order across types.
	OtherConsumers []string
	// Logger takes warnings and errors, with ids and event types, but neither payloads nor what handlers return or panic with:
	// that is stored with the event, and a middleware can log it. Default [slog.Default].
	Logger *slog.Logger
	// Observer is told what happens, for metrics; none by default.
	Observer Observer
}

// Worker claims events and runs their handlers. It runs once; for another run make another worker.
type Worker struct {
	pool   *pgxpool.Pool
	cfg    internal.Config
	handle internal.Handle
	loop   *internal.Loop
	state  atomic.Int32
	result chan error
}

// States of a worker: only what is fresh can begin anything, and what is stopped without having run stays so.
const (
	fresh int32 = iota
	draining
	started
	stopped
)

// NewWorker checks the configuration and returns a worker that is not running yet. It uses the pool for handlers
// registered with [HandleTx] and copies its configuration for up to five connections of its own, and behind a pooler
// two more for a moment at the start, so handlers may exhaust the pool. [Worker.Drain] uses one. It never closes the pool.
func NewWorker(pool *pgxpool.Pool, handlers *Handlers, cfg Config) (*Worker, error) {
	if pool == nil {
		return nil, &ConfigError{"pool", "nil", "an open pool"}
	}
	if err := handlers.check(); err != nil {
		return nil, err
	}
	types := handlers.Types()
	checked, err := cfg.check(types)
	if err != nil {
		return nil, err
	}
	handle := dispatcher(pool, handlers)
	return &Worker{
		pool:   pool,
		cfg:    checked,
		handle: handle,
		loop:   internal.New(checked, handle),
		result: make(chan error, 1),
	}, nil
}

// Run works until ctx ends or [Worker.Stop] is called. It then stops in stages: no more claims, running handlers finish,
// at StopTimeout their contexts are cancelled with cause [ErrStopping], outcomes are stored. It returns nil after a
// clean stop. Otherwise its error matches [*StopError] when something was left behind, and [ErrNotMigrated],
// [ErrPermission], [ErrPooler] or the driver's error when going on was useless. Outages of the database are waited out.
func (w *Worker) Run(ctx context.Context) error {
	if !w.state.CompareAndSwap(fresh, started) {
		return ErrStarted
	}
	left, err := w.loop.Run(ctx, w.pool.Config())
	err = translate("run", err)
	if left != nil {
		err = errors.Join(err, (*StopError)(left))
	}
	w.result <- err
	return err
}

// Stop makes [Worker.Run] stop, waits for it, and returns what it returns. When ctx ends before the handlers do, they are
// cancelled at once instead of at StopTimeout, and Stop returns within a second or two, or within fifteen when the
// database does not answer. A worker that was never started cannot be started any more.
func (w *Worker) Stop(ctx context.Context) error {
	if w.state.CompareAndSwap(fresh, stopped) || w.state.CompareAndSwap(draining, stopped) || w.state.Load() == stopped {
		return nil
	}
	w.loop.Stop(ctx)
	err := <-w.result
	w.result <- err
	return err
}

// The range of Config.Retain: the database keeps workers from deleting anything younger.
const (
	minRetain = time.Hour
	maxRetain = 87600 * time.Hour
)

// check applies defaults and refuses what is out of range.
func (c Config) check(types []string) (internal.Config, error) {
	var errs []error
	duration := func(field string, value, fallback, least, most time.Duration) time.Duration {
		if value == 0 {
			return fallback
		}
		if value < least || value > most {
			errs = append(errs, &ConfigError{field, value, fmt.Sprintf("%v to %v", least, most)})
		}
		return value
	}
	count := func(field string, value, fallback, most int) int {
		if value == 0 {
			return fallback
		}
		if value < 1 || value > most {
			errs = append(errs, &ConfigError{field, value, fmt.Sprintf("1 to %d", most)})
		}
		return value
	}
	checked := internal.Config{
		Types:        types,
		Known:        slices.Clone(c.OtherConsumers),
		Concurrency:  count("Concurrency", c.Concurrency, 1000, 10000),
		Lease:        duration("Lease", c.Lease, 5*time.Minute, 30*time.Second, time.Hour),
		PollInterval: duration("PollInterval", c.PollInterval, time.Second, 10*time.Millisecond, time.Minute),
		Pause:        duration("Pause", c.Pause, 5*time.Second, time.Second, 5*time.Minute),
		StopTimeout:  duration("StopTimeout", c.StopTimeout, 30*time.Second, time.Millisecond, time.Hour),
		Logger:       c.Logger,
		Retain: internal.Retention{
			Processed: duration("Retain", c.Retain, 0, minRetain, maxRetain),
			Discarded: duration("RetainDiscarded", c.RetainDiscarded, 0, minRetain, maxRetain),
		},
	}
	if c.Retain == 0 && c.RetainDiscarded != 0 {
		errs = append(errs, &ConfigError{"RetainDiscarded", c.RetainDiscarded, "0 where Retain is 0"})
	}
	checked.Policy = internal.Policy{
		MaxAttempts: count("MaxAttempts", c.MaxAttempts, 8, maxAttempts),
		MaxSnoozes:  count("MaxSnoozes", c.MaxSnoozes, 1000, maxSnoozes),
		BaseDelay:   duration("BaseDelay", c.BaseDelay, time.Minute, 5*time.Second, time.Hour),
		Snooze:      duration("Snooze", c.Snooze, 5*time.Minute, time.Minute, time.Hour),
	}
	checked.MaxDelay = duration("MaxDelay", c.MaxDelay, max(time.Hour, checked.BaseDelay), checked.BaseDelay, 24*time.Hour)
	c.Observer.into(&checked)
	if checked.Logger == nil {
		checked.Logger = slog.Default()
	}
	for _, other := range c.OtherConsumers {
		if strings.TrimSpace(other) == "" || slices.Contains(types, other) {
			errs = append(errs, &ConfigError{"OtherConsumers", other, "event types that are not blank and that this worker does not handle"})
		}
	}
	return checked, errors.Join(errs...)
}
