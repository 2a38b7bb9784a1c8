package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// idlePool is a pool that never connects.
func idlePool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func oneHandler() *outbox.Handlers {
	var h outbox.Handlers
	outbox.Handle(&h, typeA, func(context.Context, event.Event[payload]) error { return nil })
	return &h
}

// requireConfigError wants errors that name exactly these fields.
func requireConfigError(t *testing.T, err error, fields ...string) {
	t.Helper()
	if !errors.Is(err, outbox.ErrInvalid) {
		t.Errorf("%v does not match ErrInvalid", err)
	}
	var got []string
	for _, one := range unjoin(err) {
		var wrong *outbox.ConfigError
		if !errors.As(one, &wrong) {
			t.Errorf("%v is no ConfigError", one)
			continue
		}
		got = append(got, wrong.Field)
		if wrong.Allowed == "" || !strings.Contains(wrong.Error(), wrong.Field) || !strings.Contains(wrong.Error(), wrong.Allowed) {
			t.Errorf("%q does not name the field and what is allowed", wrong)
		}
	}
	if !slices.Equal(got, fields) {
		t.Errorf("fields %q, want %q", got, fields)
	}
}

func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// Each field just below and just above its range is refused by name; the ends of the range are taken.
func TestConfigRanges(t *testing.T) {
	t.Parallel()
	pool := idlePool(t)
	for field, c := range map[string]struct {
		least, most int64
		set         func(*outbox.Config, int64)
	}{
		"Concurrency":  {1, 10_000, func(c *outbox.Config, v int64) { c.Concurrency = int(v) }},
		"Lease":        {int64(30 * time.Second), int64(time.Hour), func(c *outbox.Config, v int64) { c.Lease = time.Duration(v) }},
		"MaxAttempts":  {1, 20, func(c *outbox.Config, v int64) { c.MaxAttempts = int(v) }},
		"MaxSnoozes":   {1, 100_000, func(c *outbox.Config, v int64) { c.MaxSnoozes = int(v) }},
		"BaseDelay":    {int64(5 * time.Second), int64(time.Hour), func(c *outbox.Config, v int64) { c.BaseDelay = time.Duration(v) }},
		"MaxDelay":     {int64(time.Minute), int64(24 * time.Hour), func(c *outbox.Config, v int64) { c.MaxDelay = time.Duration(v) }},
		"Snooze":       {int64(time.Minute), int64(time.Hour), func(c *outbox.Config, v int64) { c.Snooze = time.Duration(v) }},
		"PollInterval": {int64(10 * time.Millisecond), int64(time.Minute), func(c *outbox.Config, v int64) { c.PollInterval = time.Duration(v) }},
		"Pause":        {int64(time.Second), int64(5 * time.Minute), func(c *outbox.Config, v int64) { c.Pause = time.Duration(v) }},
		"StopTimeout":  {int64(time.Millisecond), int64(time.Hour), func(c *outbox.Config, v int64) { c.StopTimeout = time.Duration(v) }},
	} {
		t.Run(field, func(t *testing.T) {
			try := func(v int64) error {
				var cfg outbox.Config
				c.set(&cfg, v)
				_, err := outbox.NewWorker(pool, oneHandler(), cfg)
				return err
			}
			for _, good := range []int64{0, c.least, c.most} {
				if err := try(good); err != nil {
					t.Errorf("%d: %v", good, err)
				}
			}
			wrong := []int64{-1, c.most + 1}
			if c.least > 1 {
				wrong = append(wrong, c.least-1)
			}
			for _, v := range wrong {
				requireConfigError(t, try(v), field)
			}
		})
	}
}

// Everything that is wrong is told at once.
func TestConfigTellsAll(t *testing.T) {
	t.Parallel()
	_, err := outbox.NewWorker(idlePool(t), oneHandler(), outbox.Config{Concurrency: -1, Lease: 1, OtherConsumers: []string{" ", "a", "ok"}})
	requireConfigError(t, err, "Concurrency", "Lease", "OtherConsumers", "OtherConsumers")
}

func TestMaxDelayIsAtLeastBaseDelay(t *testing.T) {
	t.Parallel()
	pool := idlePool(t)
	if _, err := outbox.NewWorker(pool, oneHandler(), outbox.Config{BaseDelay: time.Hour}); err != nil {
		t.Errorf("the default does not follow the base: %v", err)
	}
	_, err := outbox.NewWorker(pool, oneHandler(), outbox.Config{BaseDelay: 10 * time.Minute, MaxDelay: 10*time.Minute - 1})
	requireConfigError(t, err, "MaxDelay")
}

func TestHandlersAreChecked(t *testing.T) {
	t.Parallel()
	pool := idlePool(t)
	for name, c := range map[string]struct {
		handlers *outbox.Handlers
		wrong    int
	}{
		"nil":         {nil, 1},
		"empty":       {&outbox.Handlers{}, 1},
		"undefined":   {register(event.Definition[payload]{}, nop), 1},
		"no function": {register(typeA, nil), 1},
		"no function, in a transaction": {func() *outbox.Handlers {
			var h outbox.Handlers
			outbox.HandleTx[payload](&h, typeA, nil)
			return &h
		}(), 1},
		"twice": {func() *outbox.Handlers {
			h := register(typeA, nop)
			outbox.HandleTx(h, typeA, func(context.Context, pgx.Tx, event.Event[payload]) error { return nil })
			return h
		}(), 1},
		"nil middleware": {func() *outbox.Handlers {
			h := register(typeA, nop)
			h.Use(nil)
			return h
		}(), 1},
		"twice wrong": {func() *outbox.Handlers {
			h := register(typeA, nil)
			outbox.Handle(h, typeB, nil)
			return h
		}(), 2},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := outbox.NewWorker(pool, c.handlers, outbox.Config{})
			requireConfigError(t, err, slices.Repeat([]string{"Handlers"}, c.wrong)...)
		})
	}
	_, err := outbox.NewWorker(nil, oneHandler(), outbox.Config{})
	requireConfigError(t, err, "pool")
}

func nop(context.Context, event.Event[payload]) error { return nil }

func register(of event.Definition[payload], fn func(context.Context, event.Event[payload]) error) *outbox.Handlers {
	var h outbox.Handlers
	outbox.Handle(&h, of, fn)
	return &h
}

func TestTypesAreSorted(t *testing.T) {
	t.Parallel()
	h := register(typeB, nop)
	outbox.Handle(h, typeA, nop)
	if got := h.Types(); !slices.Equal(got, []string{"a", "b"}) {
		t.Error(got)
	}
}

func TestWorkerRunsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(oneHandler(), outbox.Config{})
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, outbox.ErrStarted) {
		t.Errorf("a second Run: %v", err)
	}
	never, err := outbox.NewWorker(r.db.Pool, oneHandler(), outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := never.Stop(t.Context()); err != nil {
			t.Errorf("stopping what never ran: %v", err)
		}
	}
	if err := never.Run(t.Context()); !errors.Is(err, outbox.ErrStarted) {
		t.Errorf("Run after Stop: %v", err)
	}
}
