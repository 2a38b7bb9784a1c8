package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/examples/shop"
	"github.com/openlup/pgrail/webhook"
)

// parcel is a delivery before it is sent.
type parcel struct {
	path   string
	scheme webhook.Scheme
	secret string
	id     string // signed by Standard Webhooks, not by GitHub
	at     time.Time
	body   string
}

// showHooks delivers as GitHub and as a payment provider would, and as a forger.
func (d *demo) showHooks(ctx context.Context) error {
	s := &scene{demo: d, client: newClient(d.api)}
	push := parcel{
		path: "/hooks/github", scheme: webhook.GitHub, secret: d.secrets.GitHub,
		body: fmt.Sprintf(`{"ref":"refs/heads/main","after":"%x","repository":{"full_name":"tea/shop"},"pusher":{"name":"ann"}}`, uuid.New()),
	}
	s.deliver(ctx, push, "GitHub tells of a push", 200, "")
	s.deliver(ctx, push, "GitHub tells of it again", 200, "no second event")
	forged := push
	forged.secret = "a guess"
	s.deliver(ctx, forged, "somebody else tells of it", 401, "")

	order := s.openOrder(ctx)
	paid := parcel{
		path: "/hooks/payments", scheme: webhook.Standard, secret: d.secrets.Payments,
		id: "msg_" + order, at: time.Now(),
		body: fmt.Sprintf(`{"type":"payment.succeeded","data":{"order_id":"%s","method":"card","cents":1290}}`, order),
	}
	s.deliver(ctx, paid, "the payment provider tells that an order is paid", 200, "")
	s.deliver(ctx, paid, "the payment provider tells it again", 200, "no second event")
	old := paid
	old.id, old.at = "msg_old", time.Now().Add(-time.Hour)
	s.deliver(ctx, old, "a delivery signed an hour ago turns up", 401, "")
	second := paid
	second.id = "msg_second_" + order
	s.deliver(ctx, second, "another payment for the same order", 400, "")
	return s.err
}

// openOrder places an order for the payment provider to tell about.
func (s *scene) openOrder(ctx context.Context) string {
	id := uuid.NewString()
	change, err := shop.ParseLine(fmt.Appendf(nil,
		`{"type":"order.placed","id":"%s","key":"order.placed/%[1]s","data":{"customer_id":"%[1]s","items":[{"sku":"TEA-SENCHA-100","quantity":1,"cents":1290}],"total_cents":1290}}`, id))
	if err == nil {
		_, err = s.shop.Record(ctx, change)
	}
	if s.err == nil {
		s.err = err
	}
	return id
}

// deliver signs and sends a parcel. A remark says that the shop must know it already.
func (s *scene) deliver(ctx context.Context, p parcel, what string, want int, remark string) {
	request, err := p.request(ctx, s.api)
	if s.err == nil {
		s.err = err
	}
	var out struct{ Duplicate bool }
	if remark != "" {
		what += ": " + remark
	}
	s.post(request, what, want, &out)
	if s.err == nil && out.Duplicate != (remark != "") {
		s.err = fmt.Errorf("%s: duplicate is %v", what, out.Duplicate)
	}
}

func (p parcel) request(ctx context.Context, base string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+p.path, bytes.NewReader([]byte(p.body)))
	if err != nil {
		return nil, err
	}
	signer, err := webhook.NewSigner(p.scheme, webhook.SecretText(p.secret))
	if err != nil {
		return nil, err
	}
	return request, signer.Sign(request.Header, p.id, p.at, []byte(p.body))
}
