package outboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/outboxtest"
)

type Invoice struct {
	Cents int64 `json:"cents"`
}

var InvoiceSent = event.MustDefine[Invoice]("invoice.sent")

// send is what the application does, and the example tests: it tells of an invoice.
func send(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID, cents int64) error {
	_, err := outbox.Enqueue(ctx, pool, InvoiceSent.New("invoice", id, id.String(), Invoice{cents}))
	return err
}

// notify is the application's handler. Its mail server is out at first.
func notify(_ context.Context, e event.Event[Invoice]) error {
	if e.Attempt == 1 {
		return errors.New("no mail server")
	}
	return nil
}

// In an application this is func TestSend(t *testing.T), and pool is one on a migrated database of the test's own.
func Example() {
	t, pool := newTest()
	defer t.end()

	var handlers outbox.Handlers
	outbox.Handle(&handlers, InvoiceSent, notify)
	rail := outboxtest.New(t, pool, &handlers, outbox.Config{})

	invoice := uuid.MustParse("019a2b3c-4d5e-7f60-8123-456789abcdef")
	if err := send(t.Context(), pool, invoice, 1290); err != nil {
		t.Fatal(err)
	}
	want := InvoiceSent.New("invoice", invoice, invoice.String(), Invoice{1290})
	rail.RequireEnqueued(want)

	for _, d := range rail.Drain() { // without a running worker, and without waiting
		fmt.Println("try", d.Attempt, d.Outcome, d.Error)
	}
	rail.Advance(time.Minute) // until the retry is due
	for _, d := range rail.Drain() {
		fmt.Println("try", d.Attempt, d.Outcome)
	}
	rail.RequireDelivered(want)
	// Output:
	// try 1 failed no mail server
	// try 2 processed
}

// In a store's own tests, with a new, empty database for each rule of the contract.
func ExampleTestRail() {
	testStore := func(t *testing.T) {
		outboxtest.TestRail(t, func(t *testing.T) *pgxpool.Pool {
			pool, err := pgxpool.New(t.Context(), "postgres://localhost/empty")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			return pool
		})
	}
	_ = testStore // in an application: func TestStore(t *testing.T)
}
