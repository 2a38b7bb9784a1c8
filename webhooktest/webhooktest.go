// Package webhooktest builds signed requests for tests of an application's own webhook handlers.
//
//	r := webhooktest.Request{
//		Scheme: webhook.GitHub,
//		Secret: webhook.SecretText("the secret the handler was built with"),
//		Body:   []byte(`{"action":"opened"}`),
//	}.New(t, "/hooks/github")
//	handler.ServeHTTP(httptest.NewRecorder(), r)
package webhooktest

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/openlup/pgrail/webhook"
)

// Request describes one signed delivery.
type Request struct {
	Scheme webhook.Scheme
	Secret webhook.Secret
	Body   []byte

	// ID is the message's id, for schemes that sign one. If empty each request gets a new one, so only deliveries that name
	// an ID are deliveries of the same message.
	ID string

	// Time is the time of sending, for schemes that sign it; the zero time stands for now.
	Time time.Time
}

// New returns the POST to a path or URL, good for [http.Handler.ServeHTTP] and, with a whole URL, for [http.Client.Do]. Each
// has a body and headers of its own, so a test may change one to see it refused. What cannot be signed fails the test.
func (q Request) New(t testing.TB, target string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, bytes.NewReader(bytes.Clone(q.Body)))
	if err != nil {
		t.Fatal(err)
	}
	if q.ID == "" {
		q.ID = "msg_" + rand.Text()
	}
	if q.Time.IsZero() {
		q.Time = time.Now()
	}
	signer, err := webhook.NewSigner(q.Scheme, q.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.Sign(r.Header, q.ID, q.Time, q.Body); err != nil {
		t.Fatal(err)
	}
	return r
}
