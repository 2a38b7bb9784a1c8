package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/webhook/inbox"
)

// fill adds messages of a source, each a millisecond older than the one before.
func (h hook) fill(t *testing.T, source string, n int, youngest time.Duration) {
	t.Helper()
	h.exec(t, `INSERT INTO public.webhook_inbox_entries (source, key, received_at)
		SELECT $1::text, sha256(concat($1::text, n, $3::double precision)::bytea),
			clock_timestamp() - make_interval(secs => $3::double precision + n / 1000.0)
		FROM generate_series(1, $2::integer) n`, source, n, youngest.Seconds())
}

// TestPrune forgets what is older than the retention, oldest first and in bounded transactions, and nothing else.
func TestPrune(t *testing.T) {
	t.Parallel()
	h := newHook(t, func(c *inbox.Config) { c.Retention = 2 * time.Hour })
	h.fill(t, "shop", 2500, 2*time.Hour)
	h.fill(t, "shop", 3, 2*time.Hour-30*time.Second)
	h.fill(t, "bank", 3, 1000*time.Hour)
	h.exec(t, `CREATE TABLE public.batches (n bigint, oldest timestamptz, youngest timestamptz);
		CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO public.batches SELECT count(*), min(received_at), max(received_at) FROM gone;
			RETURN NULL;
		END $$;
		CREATE TRIGGER note AFTER DELETE ON public.webhook_inbox_entries
		REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.note()`)
	for _, want := range []int{2500, 0} {
		if n, err := h.Prune(t.Context()); n != want || err != nil {
			t.Errorf("Prune = %d, %v: want %d", n, err, want)
		}
	}
	left := h.list(t, `SELECT source || ' ' || count(*) FROM public.webhook_inbox_entries GROUP BY source ORDER BY source`)
	if diff := cmp.Diff([]string{"bank 3", "shop 3"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	batches := h.list(t, `SELECT concat_ws(' ', n, coalesce(oldest > lag(youngest) OVER (ORDER BY ctid), true))
		FROM public.batches ORDER BY ctid`)
	if diff := cmp.Diff([]string{"1000 t", "1000 t", "500 t", "0 t"}, batches); diff != "" {
		t.Errorf("size of each transaction, and whether it went on where the last one ended (-want +got):\n%s", diff)
	}
}

// TestAPrunedMessageIsNew, yet makes no second event while the outbox still has the first one.
func TestAPrunedMessageIsNew(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	d := verified(report())
	for _, test := range []struct {
		age  string
		want string
	}{
		{"0 hours", "recorded, duplicate false"},
		{"719 hours", "repeated, duplicate false"},
		{"721 hours", "recorded, duplicate true"}, // by the default retention of 720 hours
	} {
		h.exec(t, `UPDATE public.webhook_inbox_entries SET received_at = clock_timestamp() - $1::text::interval`, test.age)
		if _, err := h.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		receipt := h.record(t, d)
		if got := fmt.Sprintf("%s, duplicate %t", receipt.Outcome, receipt.Event.Duplicate); got != test.want {
			t.Errorf("after %s: %s, want %s", test.age, got, test.want)
		}
		h.expect(t, once(string(d.Body)))
	}
}

// TestPruningAtOnce: what another instance is just deleting holds nobody up.
func TestPruningAtOnce(t *testing.T) {
	t.Parallel()
	h := newHook(t, func(c *inbox.Config) { c.Retention = time.Hour })
	h.fill(t, "shop", 3000, time.Hour)
	other := h.begin(t)
	if _, err := other.Exec(t.Context(), `SELECT public.webhook_inbox_prune('shop', 3600, 1000)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if n, err := h.Prune(ctx); n != 2000 || err != nil {
		t.Errorf("Prune = %d, %v: want 2000", n, err)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := h.Prune(t.Context()); n != 1000 || err != nil {
		t.Errorf("Prune = %d, %v: want 1000", n, err)
	}
}

func TestPruneFails(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := h.Prune(ctx)
	var failed *inbox.Error
	if n != 0 || !errors.As(err, &failed) || !errors.Is(err, context.Canceled) {
		t.Errorf("Prune = %d, %v: want an Error around the context's", n, err)
	}
	for _, keep := range []any{nil, -1.0, 4e9} {
		err := pgx.BeginFunc(t.Context(), h.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT public.webhook_inbox_prune('shop', $1::double precision)`, keep)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "webhook_inbox_prune_invalid_input") {
			t.Errorf("webhook_inbox_prune with %v: %v", keep, err)
		}
	}
}

// TestPruningReadsTheIndex, so that a call that finds nothing old costs nothing however much there is.
func TestPruningReadsTheIndex(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	h.fill(t, "shop", 20000, time.Minute)
	h.exec(t, `ANALYZE public.webhook_inbox_entries`)
	plan := strings.Join(h.list(t, `EXPLAIN SELECT ctid FROM public.webhook_inbox_entries
		WHERE source = 'shop' AND received_at < now() - interval '1 hour' ORDER BY received_at LIMIT 1000 FOR UPDATE SKIP LOCKED`), "\n")
	if !strings.Contains(plan, "Index Scan using webhook_inbox_entries_received_idx") || strings.Contains(plan, "Sort") {
		t.Errorf("plan:\n%s", plan)
	}
}
