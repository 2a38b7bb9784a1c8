package shop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
)

const (
	// patience is how long the receiver may take to answer.
	patience = 400 * time.Millisecond
	// pause is how long an event waits that got no answer. The worker's own backoff would begin with a minute.
	pause = time.Second
)

// courier takes events to a receiver over HTTP, signed.
type courier struct {
	client   *http.Client
	receiver string
	signer   *webhook.Signer
}

// Handlers deliver every event to the receiver's URL, but for settled invoices: those are booked in this database.
// Deliveries are signed by Standard Webhooks with the event's id as message id, by which the receiver knows a repeat.
func (s *Shop) Handlers(receiver string, secret webhook.Secret) (*outbox.Handlers, error) {
	signer, err := webhook.NewSigner(webhook.Standard, secret)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	c := &courier{&http.Client{Timeout: patience, Transport: transport}, receiver, signer}

	var handlers outbox.Handlers
	outbox.Handle(&handlers, CustomerRegistered, deliver[Customer](c))
	outbox.Handle(&handlers, CustomerMoved, deliver[Move](c))
	outbox.Handle(&handlers, OrderPlaced, deliver[Order](c))
	outbox.Handle(&handlers, OrderPaid, deliver[Payment](c))
	outbox.Handle(&handlers, OrderShipped, deliver[Shipment](c))
	outbox.Handle(&handlers, OrderCancelled, deliver[Cancellation](c))
	outbox.Handle(&handlers, InvoiceIssued, deliver[Invoice](c))
	outbox.HandleTx(&handlers, InvoiceSettled, book)
	outbox.Handle(&handlers, RepositoryPushed, deliver[Push](c))
	outbox.Handle(&handlers, AdminRevoked, deliver[Revocation](c))
	return &handlers, nil
}

// book counts the takings. It runs in the transaction that acknowledges its event, so it counts each invoice once, however
// often the process dies.
func book(ctx context.Context, tx pgx.Tx, e event.Event[Payment]) error {
	_, err := tx.Exec(ctx,
		`INSERT INTO shop.takings AS t (method, invoices, cents) VALUES ($1, 1, $2)
		 ON CONFLICT (method) DO UPDATE SET invoices = t.invoices + 1, cents = t.cents + excluded.cents`,
		e.Payload.Method, e.Payload.Cents)
	return err
}

func deliver[P any](c *courier) func(context.Context, event.Event[P]) error {
	return func(ctx context.Context, e event.Event[P]) error { return c.post(ctx, e.Envelope) }
}

func (c *courier) post(ctx context.Context, e event.Envelope) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.receiver, bytes.NewReader(e.Payload))
	if err != nil {
		return event.Discard(err)
	}
	if err := c.signer.Sign(request.Header, e.ID.String(), time.Now(), e.Payload); err != nil {
		return event.Discard(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Event-Type", e.EventType)
	request.Header.Set("Event-Key", e.IdempotencyKey)
	response, err := c.client.Do(request)
	if err != nil {
		// No answer does not mean not received: the event may arrive a second time.
		return event.RetryAfter(pause, err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection can be used again
	return outcome(response)
}

// outcome reads the receiver's answer. One that names its time is tried again then; without a time, what
// [event.FromStatus] makes of a 503 would pause the whole type.
func outcome(response *http.Response) error {
	seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		return event.RetryAfter(time.Duration(seconds)*time.Second, fmt.Errorf("receiver answered %s", response.Status))
	}
	return event.FromStatus(response.StatusCode)
}
