package shop

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/webhook"
)

// addHooks opens a door for each sender. Behind it the body has been verified, byte for byte.
func (s *Shop) addHooks(mux *http.ServeMux, secrets Secrets) error {
	for _, door := range []struct {
		path   string
		scheme webhook.Scheme
		secret string
		read   func(webhook.Delivery) (Change, error)
	}{
		{"POST /hooks/github", webhook.GitHub, secrets.GitHub, readPush},
		{"POST /hooks/payments", webhook.Standard, secrets.Payments, readPayment},
	} {
		verifier, err := webhook.NewVerifier(door.scheme, []webhook.Secret{webhook.SecretText(door.secret)}, webhook.WithLogger(s.log))
		if err != nil {
			return err
		}
		mux.Handle(door.path, verifier.Middleware(s.take(door.read)))
	}
	return nil
}

// take records what a delivery says, as any other change. The delivery's key is the event's, so a repeat is recognised by
// what was signed and answered like the first one, without a second event.
func (s *Shop) take(read func(webhook.Delivery) (Change, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delivery, _ := webhook.FromContext(r.Context())
		change, err := read(delivery)
		var receipt outbox.Receipt
		if err == nil {
			receipt, err = s.Record(r.Context(), change)
		}
		s.respond(w, r, http.StatusOK, map[string]any{"event": receipt.ID, "duplicate": receipt.Duplicate}, err)
	})
}

// readPush takes three fields of GitHub's many, so unlike decode it lets the others be.
func readPush(d webhook.Delivery) (Change, error) {
	var push struct {
		Ref        string
		After      string
		Repository struct {
			FullName string `json:"full_name"`
		}
	}
	if err := json.Unmarshal(d.Body, &push); err != nil {
		return Change{}, describe(err)
	}
	repository := uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/"+push.Repository.FullName))
	payload := Push{Repository: push.Repository.FullName, Ref: push.Ref, Commit: push.After}
	return newChange(RepositoryPushed.New("repository", repository, d.Key(), payload),
		func(context.Context, pgx.Tx) error { return filled("repository.full_name", push.Repository.FullName) })
}

// readPayment takes the payment provider's word that an order is paid: the same change as a line of that type.
func readPayment(d webhook.Delivery) (Change, error) {
	message, err := decode[struct {
		Type string `json:"type"`
		Data struct {
			OrderID string `json:"order_id"`
			Payment
		} `json:"data"`
	}](d.Body)
	if err == nil && message.Type != "payment.succeeded" {
		err = &FieldError{"type", "must be payment.succeeded"}
	}
	if err == nil {
		err = isID("data.order_id", message.Data.OrderID)
	}
	if err != nil {
		return Change{}, err
	}
	data, err := json.Marshal(message.Data.Payment)
	if err != nil {
		return Change{}, err
	}
	return kinds[OrderPaid.Type()](line{ID: message.Data.OrderID, Key: d.Key(), Data: data})
}
