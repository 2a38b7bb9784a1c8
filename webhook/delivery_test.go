package webhook_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/webhook"
)

func deliver(t *testing.T, s webhook.Scheme, h http.Header, body string, secrets ...string) webhook.Delivery {
	t.Helper()
	v, err := webhook.NewVerifier(s, texts(secrets...), fixedClock(), quiet())
	if err != nil {
		t.Fatal(err)
	}
	d, err := v.Verify(h, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A delivery holds what was signed and nothing else.
func TestDelivery(t *testing.T) {
	for _, s := range presets {
		secret := newSecret(s)
		want := webhook.Delivery{Scheme: s.Name, Body: []byte("{}")}
		if s.IDHeader != "" {
			want.ID = "msg_1"
		}
		if s.TimestampHeader+s.TimestampPrefix != "" {
			want.Timestamp = now.UTC()
		}
		got := deliver(t, s, sign(t, s, secret, []byte("{}")), "{}", secret)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Name, diff)
		}
		if got.Timestamp.Location() != time.UTC {
			t.Errorf("%s: the timestamp is in %v", s.Name, got.Timestamp.Location())
		}
	}
}

// W19: whatever is not signed, and whatever a retry renews, leaves the key as it is; another message has another one.
func TestW19Key(t *testing.T) {
	for _, s := range presets {
		old, current := newSecret(s), newSecret(s)
		first := deliver(t, s, sign(t, s, old, []byte("{}")), "{}", old)

		again := sign(t, s, old, []byte("{}"))
		again.Set("X-GitHub-Delivery", "another-guid")
		again.Set("X-Slack-Retry-Num", "1")
		if d := deliver(t, s, again, "{}", old); d.Key() != first.Key() {
			t.Errorf("%s: an unsigned header changes the key", s.Name)
		}
		later := signAt(t, s, current, now.Add(200*time.Second), []byte("{}"))
		if d := deliver(t, s, later, "{}", old, current); d.Key() != first.Key() {
			t.Errorf("%s: a retry, later and with the new secret, changes the key", s.Name)
		}
		if d := deliver(t, s, anotherMessage(t, s, old), "[]", old); d.Key() == first.Key() {
			t.Errorf("%s: another message has the same key", s.Name)
		}
	}
}

func anotherMessage(t *testing.T, s webhook.Scheme, secret string) http.Header {
	t.Helper()
	signer, err := webhook.NewSigner(s, webhook.SecretText(secret))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if err := signer.Sign(h, "msg_2", now, []byte("[]")); err != nil {
		t.Fatal(err)
	}
	return h
}

// The key is the plain digest, to be found again with other tools.
func TestKeyIsADigest(t *testing.T) {
	digest := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	if got := (webhook.Delivery{Body: []byte("{}")}).Key(); got != digest("{}") {
		t.Errorf("by body: %s", got)
	}
	if got := (webhook.Delivery{ID: "msg_1", Body: []byte("{}")}).Key(); got != digest("msg_1") {
		t.Errorf("by id: %s", got)
	}
}
