package outbox_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/internal/pgtest/server"
	"github.com/openlup/pgrail/migrate"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// neutral are the settings of the sessions that look at what the others have done.
var neutral = map[string]string{
	"timezone": "UTC", "default_transaction_isolation": "read committed", "default_transaction_read_only": "off", "search_path": `"$user", public`,
	"statement_timeout": "0", "lock_timeout": "0",
}

// liars stand before what they are named after in every path that begins with public.
const liars = `
	create function public.now() returns timestamptz language sql as $$ select timestamptz '1999-01-01' $$;
	create function public.clock_timestamp() returns timestamptz language sql as $$ select timestamptz '2999-01-01' $$;
	create function public.random() returns float8 language sql as $$ select 1e9::float8 $$;
	create function public.gen_random_uuid() returns uuid language sql as $$ select '00000000-0000-0000-0000-000000000000'::uuid $$`

// slow makes the end of an event last longer than the default that its sessions have for a statement.
const slow = `create function public.slow() returns trigger language plpgsql as $$ begin perform pg_catalog.pg_sleep(0.6); return new; end $$;
	create trigger slow before update on public.outbox_events for each row when (new.status = 'processed') execute function public.slow()`

// A whole life of the rail comes out the same whatever the server, the database and the client have for defaults.
func TestHostileSurroundings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings map[string]string // of the database
		client   map[string]string // of the application's sessions
		setup    string
		// producer is what a producer that relies on the default is told.
		producer error
	}{
		"half an hour off, client elsewhere": {settings: map[string]string{"timezone": "Australia/Adelaide"}, client: map[string]string{"timezone": "America/St_Johns"}},
		"serializable":                       {settings: map[string]string{"default_transaction_isolation": "serializable"}},
		"repeatable read":                    {settings: map[string]string{"default_transaction_isolation": "repeatable read"}},
		"read-only default":                  {settings: map[string]string{"default_transaction_read_only": "on"}, producer: outbox.ErrReadOnly},
		"search_path empty":                  {settings: map[string]string{"search_path": ""}},
		"small statement_timeout":            {settings: map[string]string{"statement_timeout": "400ms"}, setup: slow},
		"a public.now() that lies":           {settings: map[string]string{"search_path": "public, pg_catalog"}, setup: liars},
		"all at once": {settings: map[string]string{"timezone": "Asia/Kathmandu", "default_transaction_isolation": "serializable", "default_transaction_read_only": "on",
			"search_path": "public, pg_catalog", "statement_timeout": "400ms"}, client: map[string]string{"timezone": "America/St_Johns"},
			setup: slow + ";" + liars, producer: outbox.ErrReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := []pgtest.Option{pgtest.PoolConfig(func(c *pgxpool.Config) { maps.Copy(c.ConnConfig.RuntimeParams, neutral) })}
			for setting, value := range c.settings {
				options = append(options, pgtest.Setting(setting, value))
			}
			r := newRig(t, options...)
			if c.setup != "" {
				r.exec(c.setup)
			}
			application := r.pool(func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams = map[string]string{}
				maps.Copy(config.ConnConfig.RuntimeParams, c.client)
			})
			_, err := outbox.Enqueue(t.Context(), application, draft(typeA, 0))
			if !errors.Is(err, c.producer) {
				t.Fatalf("a producer is told %v, want %v", err, c.producer)
			}
			if c.producer != nil {
				r.enqueue(draft(typeA, 0))
			}
			r.life(application)
		})
	}
}

// life takes events through their outcomes by a worker on the pool, the first of which is there already.
func (r *rig) life(pool *pgxpool.Pool) {
	r.Helper()
	r.enqueue(draft(typeA, 1), draft(typeA, 2), draft(typeA, 3))
	var h outbox.Handlers
	handle(&h, typeA, func(_ context.Context, e event.Event[payload]) error {
		if age := time.Since(e.CreatedAt); age.Abs() > time.Hour || e.CreatedAt.Location() != time.UTC {
			r.Errorf("%d was created at %v", e.Payload.N, e.CreatedAt)
		}
		return []error{nil, errors.New("no"), event.Snooze(time.Hour, nil), event.Discard(errors.New("never"))}[e.Payload.N]
	})
	w := r.workOn(&pgtest.DB{Pool: pool}, &h, outbox.Config{PollInterval: 20 * time.Millisecond})
	const ended = `(select string_agg(concat_ws(' ', payload ->> 'n', status, attempts,
		round(extract(epoch from greatest(available_at - clock_timestamp(), '0')) / 60 / 30)), ', ' order by payload ->> 'n') from public.outbox_events)`
	const want = "0 processed 1 0, 1 failed 1 0, 2 failed 0 2, 3 discarded 1 0" // the last figure is the delay in half hours
	r.until(`(select count(*) = 0 from public.outbox_events where status in ('pending', 'processing'))`)
	if got := value[string](r, `select `+ended); got != want {
		r.Errorf("the events are %s, want %s", got, want)
	}
	r.check(w.stop(r.TB))
	ids, err := outbox.Discarded(r.Context(), pool, 10, "a")
	r.check(err)
	explained, err := outbox.ExplainAggregate(r.Context(), pool, "order", agg(2))
	r.check(err)
	if len(ids) != 1 || explained.Reason != outbox.ReasonNotDue || explained.DueIn < 50*time.Minute || explained.DueIn > time.Hour {
		r.Errorf("discarded %v; the snoozed one is %+v", ids, explained)
	}
	if bad := value[int](r, `select count(*) from public.outbox_check()`); bad != 0 {
		r.Errorf("%d marks of the rail are wrong", bad)
	}
}

// On a server that speaks German nothing is told by the words of its messages.
func TestHostileMessages(t *testing.T) {
	locales, err := os.MkdirTemp("/tmp", "pgrail-locales-") // the server may be another user's
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(locales)
	if err := os.Chmod(locales, 0o755); err != nil {
		t.Fatal(err)
	}
	language := "C"
	if out, err := exec.Command("localedef", "-i", "de_DE", "-f", "UTF-8", filepath.Join(locales, "de_DE.UTF-8")).CombinedOutput(); err == nil {
		t.Setenv("LOCPATH", locales)
		language = "de_DE.UTF-8"
	} else {
		t.Logf("the server speaks English: %v\n%s", err, out)
	}
	local, err := server.StartLocal(t.Context(), server.Options{TempDir: server.MemoryDir(), Settings: map[string]string{"lc_messages": language}})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	r := &rig{t, &pgtest.DB{URL: local.URL("postgres"), Name: "postgres"}}
	r.db.Pool, err = pgxpool.New(t.Context(), r.db.URL)
	r.check(err)
	defer r.db.Pool.Close()

	_, err = outbox.Enqueue(t.Context(), r.db.Pool, draft(typeA, 0))
	got := []bool{errors.Is(err, outbox.ErrNotMigrated)}
	r.check(migrate.Up(t.Context(), r.db.URL))
	r.exec(`create role weak login`)
	weak := r.pool(func(c *pgxpool.Config) { c.ConnConfig.User = "weak" })
	_, err = outbox.Enqueue(t.Context(), weak, draft(typeA, 0))
	t.Logf("it says: %v", err) // in English where the server has been built without translations
	got = append(got, errors.Is(err, outbox.ErrPermission))
	err = pgx.BeginTxFunc(t.Context(), r.db.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		_, err := outbox.Enqueue(t.Context(), tx, draft(typeA, 0))
		return err
	})
	got = append(got, errors.Is(err, outbox.ErrReadOnly))
	if diff := cmp.Diff([]bool{true, true, true}, got); diff != "" {
		t.Errorf("not migrated, no permission, read-only (-want +got):\n%s", diff)
	}
	r.enqueue(draft(typeA, 0))
	r.life(r.db.Pool)
}
