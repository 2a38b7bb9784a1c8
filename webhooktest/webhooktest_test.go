package webhooktest_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhooktest"
)

var presets = []webhook.Scheme{webhook.Hex, webhook.GitHub, webhook.Shopify, webhook.Slack, webhook.Stripe, webhook.Standard}

func newHandler(t *testing.T, s webhook.Scheme, secret webhook.Secret) http.Handler {
	t.Helper()
	v, err := webhook.NewVerifier(s, []webhook.Secret{secret})
	if err != nil {
		t.Fatal(err)
	}
	return v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := webhook.FromContext(r.Context())
		io.WriteString(w, d.Key())
	}))
}

// Every preset, called directly and posted to a server; a changed body shows that the signature is what lets it in.
func TestRequest(t *testing.T) {
	secret := webhook.SecretBytes([]byte("0123456789abcdef01234567"))
	for _, s := range presets {
		t.Run(s.Name, func(t *testing.T) {
			handler := newHandler(t, s, secret)
			q := webhooktest.Request{Scheme: s, Secret: secret, Body: []byte(`{"a":1}`)}
			if got := status(handler, q.New(t, "/hooks")); got != http.StatusOK {
				t.Errorf("answer %d", got)
			}
			changed := q.New(t, "/hooks")
			changed.Body = io.NopCloser(bytes.NewReader([]byte(`{"a":2}`)))
			if got := status(handler, changed); got != http.StatusUnauthorized {
				t.Errorf("changed body: answer %d", got)
			}
			server := httptest.NewServer(handler)
			defer server.Close()
			resp, err := server.Client().Do(q.New(t, server.URL))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("posted: answer %d", resp.StatusCode)
			}
		})
	}
}

// ID and Time are signed as given, and requests without an ID are different messages.
func TestRequestIDAndTime(t *testing.T) {
	secret := webhook.SecretBytes([]byte("0123456789abcdef01234567"))
	handler := newHandler(t, webhook.Standard, secret)
	q := webhooktest.Request{Scheme: webhook.Standard, Secret: secret, Body: []byte("{}")}
	if first, second := key(handler, q.New(t, "/")), key(handler, q.New(t, "/")); first == second {
		t.Error("two requests without an ID share a key")
	}
	q.ID = "msg_1"
	if first, second := key(handler, q.New(t, "/")), key(handler, q.New(t, "/")); first != second {
		t.Error("two requests with one ID have two keys")
	}
	q.Time = time.Now().Add(-time.Hour)
	if got := status(handler, q.New(t, "/")); got != http.StatusUnauthorized {
		t.Errorf("an hour old: answer %d", got)
	}
}

func status(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func key(h http.Handler, r *http.Request) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}
