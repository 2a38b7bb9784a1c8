package webhook_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/openlup/pgrail/webhook"
)

var presets = []webhook.Scheme{webhook.Hex, webhook.GitHub, webhook.Shopify, webhook.Slack, webhook.Stripe, webhook.Standard}

// now is the fixed clock of the tests that do not need a real one.
var now = time.Unix(1790000000, 0)

func fixedClock() webhook.Option { return webhook.WithClock(func() time.Time { return now }) }

// quiet keeps refusals that a test provokes out of its output.
func quiet() webhook.Option { return webhook.WithLogger(slog.New(slog.DiscardHandler)) }

// newSecret returns random text that the scheme takes as a secret.
func newSecret(s webhook.Scheme) string {
	if s.SecretPrefix == "" {
		return rand.Text()
	}
	key := make([]byte, 24)
	rand.Read(key)
	return s.SecretPrefix + base64.StdEncoding.EncodeToString(key)
}

func texts(secrets ...string) []webhook.Secret {
	var out []webhook.Secret
	for _, s := range secrets {
		out = append(out, webhook.SecretText(s))
	}
	return out
}

func newVerifier(t testing.TB, s webhook.Scheme, secret string, options ...webhook.Option) *webhook.Verifier {
	t.Helper()
	options = append([]webhook.Option{fixedClock(), quiet()}, options...)
	v, err := webhook.NewVerifier(s, texts(secret), options...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sign returns the headers of a delivery signed at now.
func sign(t testing.TB, s webhook.Scheme, secret string, body []byte) http.Header {
	t.Helper()
	return signAt(t, s, secret, now, body)
}

func signAt(t testing.TB, s webhook.Scheme, secret string, at time.Time, body []byte) http.Header {
	t.Helper()
	signer, err := webhook.NewSigner(s, webhook.SecretText(secret))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if err := signer.Sign(h, "msg_1", at, body); err != nil {
		t.Fatal(err)
	}
	return h
}

// request is a request as a server sees it.
func request(h http.Header, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hooks", body)
	for name, values := range h {
		r.Header[name] = values
	}
	return r
}

func bytesRequest(h http.Header, body []byte) *http.Request { return request(h, bytes.NewReader(body)) }

// serve runs one request through the middleware. The handler's body is nil if the handler was not called.
func serve(t testing.TB, v *webhook.Verifier, r *http.Request) (*httptest.ResponseRecorder, []byte) {
	t.Helper()
	var got []byte
	w := httptest.NewRecorder()
	v.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		read, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the body again: %v", err)
		}
		d, ok := webhook.FromContext(r.Context())
		if !ok || !bytes.Equal(d.Body, read) {
			t.Errorf("the context has delivery %v with %d bytes, the body %d", ok, len(d.Body), len(read))
		}
		got = append([]byte{}, read...)
	})).ServeHTTP(w, r)
	return w, got
}
