package inbox_test

import (
	"context"
	"log"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
	"github.com/openlup/pgrail/webhooktest"
)

type Invoice struct {
	ID    uuid.UUID `json:"id"`
	Cents int       `json:"cents"`
}

var InvoicePaid = event.MustDefine[Invoice]("invoice.paid")

// newInvoiceHook is all that an application needs for one event out of each message of a sender.
func newInvoiceHook(pool *pgxpool.Pool, secret string) (*inbox.Inbox, error) {
	verifier, err := webhook.NewVerifier(webhook.Standard, []webhook.Secret{webhook.SecretText(secret)})
	if err != nil {
		return nil, err
	}
	return inbox.New(pool, verifier, inbox.Config{Source: "billing", Draft: func(_ context.Context, d webhook.Delivery) (event.Draft, error) {
		invoice, err := inbox.Decode[Invoice](d)
		return InvoicePaid.New("invoice", invoice.ID, "", invoice), err
	}})
}

func ExampleNew() {
	pool, err := pgxpool.New(context.Background(), "") // from the PG* variables
	if err != nil {
		log.Fatal(err)
	}
	hook, err := newInvoiceHook(pool, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") // from the configuration
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for range time.Tick(24 * time.Hour) {
			if _, err := hook.Prune(context.Background()); err != nil {
				log.Print(err)
			}
		}
	}()
	http.Handle("POST /hooks/billing", hook)
	log.Fatal(http.ListenAndServe(":8080", nil))
}

// TestExample posts to the example's hook.
func TestExample(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	database := pgtest.New(t)
	invoices, err := newInvoiceHook(database.Pool, secret)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := webhooktest.Request{Scheme: webhook.Standard, Secret: webhook.SecretText(secret), ID: "msg_1",
			Body: []byte(`{"id":"00000000-0000-4000-8000-000000000001","cents":100}`)}.New(t, "/hooks/billing")
		if got := serve(invoices, r); got.Status != http.StatusOK {
			t.Errorf("answer %+v", got)
		}
	}
	want := []string{`invoice.paid 00000000-0000-4000-8000-000000000001 {"id": "00000000-0000-4000-8000-000000000001", "cents": 100}`}
	got := hook{DB: database}.list(t, `SELECT concat_ws(' ', event_type, aggregate_id, payload) FROM public.outbox_events`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
