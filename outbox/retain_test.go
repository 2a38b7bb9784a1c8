package outbox_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/outbox"
)

// aged is an event at rest that was written and came to rest so long ago.
func (r *rig) aged(status string, n int, ago time.Duration) uuid.UUID {
	r.Helper()
	return value[uuid.UUID](r, `insert into public.outbox_events
			(created_at, processed_at, aggregate_type, aggregate_id, event_type, idempotency_key, status, payload)
		values (clock_timestamp() - $1::interval, case $2 when 'processed' then clock_timestamp() - $1::interval end, 'order', $3, 'a', gen_random_uuid(), $2, '{}')
		returning id`, ago, status, agg(n))
}

// A worker deletes what it need not retain, and nothing else: neither what is younger nor what waits, and discarded
// events only where it was told for how long.
func TestWorkerRetains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  outbox.Config
		gone []string
	}{
		"processed": {outbox.Config{Retain: 48 * time.Hour}, []string{"old processed"}},
		"both": {outbox.Config{Retain: 48 * time.Hour, RetainDiscarded: 24 * time.Hour},
			[]string{"old discarded", "old processed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const day = 24 * time.Hour
			names := map[uuid.UUID]string{
				r.aged("processed", 1, 3*day): "old processed", r.aged("processed", 2, day): "young processed",
				r.aged("discarded", 3, 3*day): "old discarded", r.aged("discarded", 4, time.Hour): "young discarded",
			}
			for id, name := range names {
				r.exec(`update public.outbox_events set metadata = jsonb_build_object('name', $2::text) where id = $1`, id, name)
			}
			r.exec(`insert into public.outbox_events (created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload, metadata)
				values (clock_timestamp() - interval '9 days', clock_timestamp() + interval '9 days', 'order', $1, 'a', 'k', '{}', '{"name": "waits"}')`, agg(5))
			pruned := make(chan int, 9)
			c.cfg.Observer.Pruned = func(n int) { pruned <- n }
			r.work(oneHandler(), c.cfg)
			if n := receive(t, pruned); n != len(c.gone) {
				t.Errorf("pruned %d", n)
			}
			want := []string{"old discarded", "old processed", "waits", "young discarded", "young processed"}
			want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains(c.gone, name) })
			got := value[[]string](r, `select array_agg(metadata ->> 'name' order by metadata ->> 'name') from public.outbox_events`)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// A key is taken while its event is retained, and free again after that.
func TestRetainIsTheDedupeWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := draft(typeA, 1)
	first := r.enqueue(d)[0]
	r.exec(`update public.outbox_events set status = 'processed', processed_at = clock_timestamp() - interval '59 minutes'`)
	pruned := make(chan int, 9)
	cfg := outbox.Config{Retain: time.Hour, Observer: outbox.Observer{Pruned: func(n int) { pruned <- n }}}
	r.aged("processed", 2, 2*time.Hour)
	w := r.workOn(r.db, oneHandler(), cfg)
	if n := receive(t, pruned); n != 1 {
		t.Errorf("pruned %d, want only the other", n)
	}
	if again := r.enqueue(d)[0]; again != first {
		t.Errorf("a second event for a key that is taken")
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	r.exec(`update public.outbox_events set processed_at = processed_at - interval '2 minutes'`)
	r.work(oneHandler(), cfg)
	if n := receive(t, pruned); n != 1 {
		t.Errorf("pruned %d, want 1", n)
	}
	if again := r.enqueue(d)[0]; again == first {
		t.Errorf("the key is not free after its event")
	}
}

// Of several workers one deletes at a time, and one that waits for no other.
func TestOneWorkerPrunesAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for n := range 3 {
		r.aged("processed", n, 48*time.Hour)
	}
	one := r.db.Connect(t)
	prune := func() *int { return value[*int](r, `select public.outbox_retain(3600, 2)`) }
	if _, err := one.Exec(t.Context(), `begin; select public.outbox_retain(3600, 1)`); err != nil {
		t.Fatal(err)
	}
	if n := prune(); n != nil {
		t.Errorf("a second one deleted %d beside the first", *n)
	}
	if _, err := one.Exec(t.Context(), `commit`); err != nil {
		t.Fatal(err)
	}
	if n := prune(); n == nil || *n != 2 {
		t.Errorf("after it, the second deleted %v, want 2", n)
	}
}

// Whatever a worker is told, it cannot delete what came to rest within the hour.
func TestWorkersCannotPruneTheYoung(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, args := range []string{"3599", "null", "0", "-1", "3600, 10, 3599", "'NaN'", "'Infinity'", "3600, 10, 'NaN'"} {
		_, err := r.db.Pool.Exec(t.Context(), `select public.outbox_retain(`+args+`)`)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22023" {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestRetainConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg    outbox.Config
		fields []string
	}{
		"too short":         {outbox.Config{Retain: time.Hour - 1}, []string{"Retain"}},
		"discarded alone":   {outbox.Config{RetainDiscarded: time.Hour}, []string{"RetainDiscarded"}},
		"discarded briefly": {outbox.Config{Retain: time.Hour, RetainDiscarded: time.Hour - 1}, []string{"RetainDiscarded"}},
		"too long":          {outbox.Config{Retain: 87600*time.Hour + 1, RetainDiscarded: 87600*time.Hour + 1}, []string{"Retain", "RetainDiscarded"}},
		"negative":          {outbox.Config{Retain: -time.Hour}, []string{"Retain"}},
	} {
		_, err := outbox.NewWorker(idlePool(t), oneHandler(), c.cfg)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		requireConfigError(t, err, c.fields...)
	}
	for _, d := range []time.Duration{time.Hour, 87600 * time.Hour} {
		if _, err := outbox.NewWorker(idlePool(t), oneHandler(), outbox.Config{Retain: d, RetainDiscarded: d}); err != nil {
			t.Errorf("%v: %v", d, err)
		}
	}
}

func ExampleConfig_retention() {
	cfg := outbox.Config{Retain: 30 * 24 * time.Hour, RetainDiscarded: 90 * 24 * time.Hour}
	fmt.Println(cfg.Retain, cfg.RetainDiscarded)
	// Output: 720h0m0s 2160h0m0s
}
