package inbox_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
	"github.com/openlup/pgrail/webhooktest"
)

func verified(body string) webhook.Delivery {
	return webhook.Delivery{Scheme: "github", Body: []byte(body)}
}

func (h hook) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := h.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// record records in a transaction of its own.
func (h hook) record(t *testing.T, d webhook.Delivery) (receipt inbox.Receipt) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), h.Pool, func(tx pgx.Tx) (err error) {
		receipt, err = h.Record(t.Context(), tx, d)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// untilBlocked returns once a session waits for another one's lock.
func (h hook) untilBlocked(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	const ask = `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0)`
	for blocked := false; !blocked; {
		if err := h.Pool.QueryRow(ctx, ask).Scan(&blocked); err != nil {
			t.Fatal(err)
		}
	}
}

// ordering is an application that keeps a table of its own beside the event.
func (h hook) ordering(t *testing.T, fail *error) http.Handler {
	t.Helper()
	h.exec(t, `CREATE TABLE public.orders (body bytea)`)
	verifier, err := webhook.NewVerifier(h.scheme, []webhook.Secret{h.secret()})
	if err != nil {
		t.Fatal(err)
	}
	return verifier.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delivery, _ := webhook.FromContext(r.Context())
		h.Answer(w, r, pgx.BeginFunc(r.Context(), h.Pool, func(tx pgx.Tx) error {
			receipt, err := h.Record(r.Context(), tx, delivery)
			if err != nil || receipt.Outcome != inbox.Recorded {
				return err
			}
			if _, err := tx.Exec(r.Context(), `INSERT INTO public.orders VALUES ($1::bytea)`, delivery.Body); err != nil {
				return err
			}
			return *fail
		}))
	}))
}

// TestRecordInTheApplicationsTransaction: what the application writes, the message and the event are there together or
// not at all, and once.
func TestRecordInTheApplicationsTransaction(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	var fail error
	application := h.ordering(t, &fail)
	body := report()
	deliver := func() answer {
		r := webhooktest.Request{Scheme: h.scheme, Secret: h.secret(), Body: []byte(body)}.New(t, "/")
		return serve(application, r)
	}
	orders := func() []string { return h.list(t, `SELECT convert_from(body, 'UTF8') FROM public.orders`) }

	fail = errors.New("out of stock")
	h.checkFailure(t, deliver(), 500, "delivery failed", "out of stock")
	h.expect(t, once())
	if got := orders(); len(got) != 0 {
		t.Errorf("after a failure: orders %q", got)
	}
	fail = nil
	for range 2 {
		h.expectAnswer(t, ok, deliver())
		h.expect(t, once(body))
		if diff := cmp.Diff([]string{body}, orders()); diff != "" {
			t.Errorf("orders (-want +got):\n%s", diff)
		}
	}
}

// TestReceipts: the receipt tells a first delivery, a repeat, one that is ignored, and one whose event was there before.
func TestReceipts(t *testing.T) {
	t.Parallel()
	h := newHook(t, func(c *inbox.Config) {
		c.Draft = func(ctx context.Context, d webhook.Delivery) (event.Draft, error) {
			if string(d.Body) == "{}" {
				return event.Draft{}, errors.Join(inbox.ErrIgnored)
			}
			return draftPayment(ctx, d)
		}
	})
	body := report()
	first, repeat, ignored := h.record(t, verified(body)), h.record(t, verified(body)), h.record(t, verified("{}"))
	h.exec(t, `DELETE FROM public.webhook_inbox_entries`)
	again := h.record(t, verified(body))
	id := h.list(t, `SELECT id::text FROM public.outbox_events`)
	if len(id) != 1 || first.Event.ID.String() != id[0] {
		t.Fatalf("receipt %+v, events %q", first, id)
	}
	want := []inbox.Receipt{
		{Outcome: inbox.Recorded, Event: outbox.Receipt{ID: first.Event.ID, SamePayload: true}},
		{Outcome: inbox.Repeated},
		{Outcome: inbox.Ignored},
		{Outcome: inbox.Recorded, Event: outbox.Receipt{ID: first.Event.ID, Duplicate: true, SamePayload: true}},
	}
	if diff := cmp.Diff(want, []inbox.Receipt{first, repeat, ignored, again}); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
}

// TestRecordUnderSnapshots: whoever cannot see what the first one has committed is told to run again, and never that it
// is the first; after a rollback it takes the first one's place.
func TestRecordUnderSnapshots(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for _, commits := range []bool{true, false} {
			body := report()
			first := h.begin(t)
			if _, err := h.Record(t.Context(), first, verified(body)); err != nil {
				t.Fatal(err)
			}
			second := make(chan error, 1)
			go func() {
				second <- pgx.BeginTxFunc(context.Background(), h.Pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
					_, err := h.Record(context.Background(), tx, verified(body))
					return err
				})
			}()
			h.untilBlocked(t)
			end := first.Rollback
			if commits {
				end = first.Commit
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := <-second
			if errors.Is(err, outbox.ErrRetryTransaction) != commits || (err != nil) != commits {
				t.Errorf("%s, the first one commits %t: %v", level, commits, err)
			}
			if status := inbox.StatusCode(err); commits && status != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d, want 503", level, status)
			}
		}
	}
	if got := h.written(t); len(got.Messages) != 4 || len(got.Events) != 4 {
		t.Errorf("written %v: want 4 messages and events", got)
	}
}
