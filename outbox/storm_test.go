package outbox_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/internal/pgtest/bouncer"
	"github.com/openlup/pgrail/outbox"
)

// Workers are started and stopped at any moment, before they run, while their services start, and by several at once: each
// ends, and nothing of its services is left, neither a goroutine, nor a session, nor a presence. Not parallel: it counts
// goroutines.
func TestStormOfStops(t *testing.T) {
	for name, c := range map[string]struct {
		opts []pgtest.Option
		lost bool // nobody answers
	}{
		"server": {},
		"transaction pooler": {opts: []pgtest.Option{pgtest.PoolConfig(func(c *pgxpool.Config) {
			bouncer.Through(t, bouncer.Transaction)(c)
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		})}},
		"no server": {lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.opts...)
			pool := r.pool(func(config *pgxpool.Config) {
				if c.lost {
					config.ConnConfig.Host = t.TempDir() // a socket that nobody listens on
				}
			})
			ids := r.enqueue(draft(typeA, 1), draft(typeA, 2), draft(typeA, 1))
			before := goleak.IgnoreCurrent()
			r.storm(pool)
			goleak.VerifyNone(t, before)
			r.until(`not exists (select from public.outbox_workers) and not exists (select from pg_locks where locktype = 'advisory'
				and database = (select oid from pg_database where datname = current_database()))`)
			if c.opts == nil { // the sessions of a pooler are the pooler's
				r.until(`not exists (select from pg_stat_activity where datname = current_database() and application_name = 'pgrail worker')`)
			}
			if n := value[int](r, `select count(*) from public.outbox_events where status = 'pending' and attempts = 0 or status = 'processed' and attempts = 1`); n != len(ids) {
				t.Errorf("%d of %d events are done or free", n, len(ids))
			}
		})
	}
}

// storm lets each of many workers live a little longer than the one before, in round trips to the server; the first ones are
// stopped beside their start, the others by several at once.
func (r *rig) storm(pool *pgxpool.Pool) {
	r.Helper()
	const workers, early = 40, 10
	for life := range workers {
		worker, err := outbox.NewWorker(pool, register(typeA, nop), outbox.Config{Logger: slog.New(slog.DiscardHandler)})
		r.check(err)
		var ended sync.WaitGroup
		ended.Go(func() {
			if err := worker.Run(context.Background()); err != nil && (life >= early || err != outbox.ErrStarted) {
				r.Errorf("ran into %v", err)
			}
		})
		if life >= early {
			r.wait("the worker runs", worker.Started)
		}
		for range life - early {
			value[int](r, `select 1`)
		}
		for range 3 {
			ended.Go(func() {
				if err := worker.Stop(context.Background()); err != nil {
					r.Errorf("stopped with %v", err)
				}
			})
		}
		ended.Wait()
	}
}
