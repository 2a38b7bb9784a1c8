package webhook_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openlup/pgrail/webhook"
)

// refusedFor checks that an error is the one public failure and returns its reason.
func refusedFor(t *testing.T, err error) string {
	t.Helper()
	var refused *webhook.SignatureError
	if !errors.As(err, &refused) || !errors.Is(err, webhook.ErrInvalidSignature) || err.Error() != "webhook: invalid signature" {
		t.Fatalf("error %v, want invalid signature", err)
	}
	return refused.Reason
}

// W9: the bytes count, not their meaning.
func TestW9Reserialized(t *testing.T) {
	for _, s := range presets {
		secret := newSecret(s)
		h := sign(t, s, secret, []byte(`{"a":1}`))
		checkEverywhere(t, s, []string{secret}, now, h, []byte(`{"a":1}`), true)
		checkEverywhere(t, s, []string{secret}, now, h, []byte(`{ "a" : 1 }`), false)
	}
}

// W10: whatever the body is, its bytes on the wire are signed; nothing is decoded, decompressed or trimmed.
func TestW10BytesOnTheWire(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte(`{"a":1}`))
	z.Close()
	bodies := map[string]struct{ sent, other string }{
		"form":             {"a=1&b=%C5%BC", "a=1&b=ż"},
		"gzip":             {zipped.String(), `{"a":1}`},
		"CRLF":             {"a\r\nb", "a\nb"},
		"NUL":              {"a\x00b", "ab"},
		"trailing newline": {"a\n", "a"},
		"not UTF-8":        {"\xff\xfe", "\uFFFD\uFFFD"},
		"byte order mark":  {"\ufeffa", "a"},
	}
	for name, c := range bodies {
		t.Run(name, func(t *testing.T) {
			for _, s := range presets {
				secret := newSecret(s)
				h := sign(t, s, secret, []byte(c.sent))
				h.Set("Content-Encoding", "gzip")
				checkEverywhere(t, s, []string{secret}, now, h, []byte(c.sent), true)
				checkEverywhere(t, s, []string{secret}, now, h, []byte(c.other), false)
			}
		})
	}
}

// W11: nothing is parsed, so nesting that would exhaust a parser is just bytes.
func TestW11DeepNesting(t *testing.T) {
	body := []byte(strings.Repeat("[", 200_000))
	for _, s := range presets {
		secret := newSecret(s)
		h := sign(t, s, secret, body)
		checkEverywhere(t, s, []string{secret}, now, h, body, true)
		checkEverywhere(t, s, []string{newSecret(s)}, now, h, body, false)
	}
}

// W12 and W15: exactly one value of every header the scheme reads.
func TestW12W15ExactlyOneValue(t *testing.T) {
	body := []byte("{}")
	for _, s := range presets {
		secret := newSecret(s)
		for name, values := range sign(t, s, secret, body) {
			right := values[0]
			for _, wrong := range [][]string{{right, "junk"}, {"junk", right}, {"", right}, {right, right}, {right, ""}, {""}, {}, nil} {
				h := sign(t, s, secret, body)
				checkEverywhere(t, s, []string{secret}, now, h, body, true)
				h[name] = wrong
				checkEverywhere(t, s, []string{secret}, now, h, body, false)
			}
			t.Run("W15/"+s.Name+"/"+name, func(t *testing.T) {
				h := sign(t, s, secret, body)
				h.Del(name)
				checkEverywhere(t, s, []string{secret}, now, h, body, false)
			})
		}
	}
}

// W13: values of the wrong length or alphabet, between a right and a wrong one.
func TestW13MalformedValues(t *testing.T) {
	body := []byte("{}")
	for _, s := range []webhook.Scheme{webhook.Hex, webhook.GitHub} {
		secret := newSecret(s)
		right := sign(t, s, secret, body).Get(s.SignatureHeader)
		digits := right[len(right)-64:]
		prefix := right[:len(right)-64]
		values := map[string]bool{right: true, prefix + strings.Repeat("0", 64): false, prefix + strings.Repeat("z", 64): false}
		for _, n := range []int{0, 1, 32, 63} {
			values[prefix+digits[:n]] = false
		}
		for _, wrong := range []string{digits + "0", "0" + digits, digits + digits, digits + " ", " " + digits, "0x" + digits, strings.ToUpper(digits)} {
			values[prefix+wrong] = false
		}
		for value, valid := range values {
			h := http.Header{s.SignatureHeader: {value}}
			checkEverywhere(t, s, []string{secret}, now, h, body, valid)
		}
	}
}

// A MAC in base64 is written in one way only; a decoder would forgive the others.
func TestBase64IsCanonical(t *testing.T) {
	body := []byte("{}")
	secret := newSecret(webhook.Shopify)
	right := sign(t, webhook.Shopify, secret, body).Get("X-Shopify-Hmac-Sha256")
	mac, _ := base64.StdEncoding.DecodeString(right)
	last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", right[42])
	values := map[string]bool{
		right:                          true,
		right[:43]:                     false,
		right + "\n":                   false,
		right[:20] + "\n" + right[20:]: false,
		// The last digit carries two bits that belong to no byte.
		right[:42] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[last|1]) + "=": false,
		strings.NewReplacer("+", "-", "/", "_").Replace(right) + " ":                                          false,
		hex.EncodeToString(mac): false,
	}
	for value, valid := range values {
		checkEverywhere(t, webhook.Shopify, []string{secret}, now, http.Header{"X-Shopify-Hmac-Sha256": {value}}, body, valid)
	}
}

// W16: GitHub's prefix is part of the value.
func TestW16GitHubPrefix(t *testing.T) {
	body := []byte("{}")
	secret := newSecret(webhook.GitHub)
	right := sign(t, webhook.GitHub, secret, body).Get("X-Hub-Signature-256")
	digits := strings.TrimPrefix(right, "sha256=")
	for value, valid := range map[string]bool{
		right: true, digits: false, "sha1=" + digits[:40]: false, "sha1=" + digits: false, "xxsha256=" + digits: false,
		"SHA256=" + digits: false, "sha256=sha256=" + digits: false, "sha256= " + digits: false, "sha256=": false,
	} {
		checkEverywhere(t, webhook.GitHub, []string{secret}, now, http.Header{"X-Hub-Signature-256": {value}}, body, valid)
	}
}

// W18: the window is two-sided and inclusive, on the injected clock.
func TestW18Window(t *testing.T) {
	body := []byte("{}")
	for _, s := range []webhook.Scheme{webhook.Slack, webhook.Stripe, webhook.Standard} {
		secret := newSecret(s)
		for offset, valid := range map[time.Duration]bool{-301: false, -300: true, -1: true, 0: true, 1: true, 300: true, 301: false} {
			h := signAt(t, s, secret, now.Add(offset*time.Second), body)
			checkEverywhere(t, s, []string{secret}, now, h, body, valid)
			// A clock between two seconds counts as the earlier one.
			checkEverywhere(t, s, []string{secret}, now.Add(999*time.Millisecond), h, body, valid)
		}
	}
}

// W18: a timestamp is digits, once, and fits; the values are signed, so only the timestamp can be what is refused.
func TestW18Timestamps(t *testing.T) {
	body := []byte("{}")
	secret := newSecret(webhook.Stripe)
	for _, text := range []string{"1790000000", "", "+1790000000", "-1790000000", " 1790000000", "1790000000 ", "1790000000.0", "1_790_000_000",
		"0x6ab13f80", "abc", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1790000000000"} {
		valid := text == "1790000000"
		slack := http.Header{
			"X-Slack-Request-Timestamp": {text},
			"X-Slack-Signature":         {"v0=" + plainHex(secret, "v0:"+text+":{}")},
		}
		checkEverywhere(t, webhook.Slack, []string{secret}, now, slack, body, valid)
		mac := plainHex(secret, text+".{}")
		stripe := http.Header{"Stripe-Signature": {"t=" + text + ",v1=" + mac}}
		checkEverywhere(t, webhook.Stripe, []string{secret}, now, stripe, body, valid)
		for _, twice := range []string{"t=" + text + ",t=" + text + ",v1=" + mac, "t=" + text + ",v1=" + mac + ",t=1790000001", "v1=" + mac} {
			checkEverywhere(t, webhook.Stripe, []string{secret}, now, http.Header{"Stripe-Signature": {twice}}, body, false)
		}
	}
}

// A full stop in the id would let a part of it pass for the timestamp, under the same signature.
func TestStandardIDs(t *testing.T) {
	key := []byte("0123456789abcdef01234567")
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	for id, valid := range map[string]bool{"msg_1": true, "a.1790000000": false, ".": false, "a b": false, "ż": false, "a\x00": false} {
		h := http.Header{
			"Webhook-Id":        {id},
			"Webhook-Timestamp": {"1790000000"},
			"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(plainMAC(string(key), id+".1790000000.{}"))},
		}
		checkEverywhere(t, webhook.Standard, []string{secret}, now, h, []byte("{}"), valid)
	}
}

// Each cause has a reason of its own for the log, and one text for everybody.
func TestReasons(t *testing.T) {
	body := []byte("{}")
	secret := newSecret(webhook.Standard)
	v := newVerifier(t, webhook.Standard, secret)
	seen := map[string]bool{}
	for name, change := range map[string]func(http.Header){
		"no signature":    func(h http.Header) { h.Del("Webhook-Signature") },
		"no id":           func(h http.Header) { h.Del("Webhook-Id") },
		"bad id":          func(h http.Header) { h.Set("Webhook-Id", "a.b") },
		"no timestamp":    func(h http.Header) { h.Del("Webhook-Timestamp") },
		"bad timestamp":   func(h http.Header) { h.Set("Webhook-Timestamp", "soon") },
		"old timestamp":   func(h http.Header) { h.Set("Webhook-Timestamp", "1") },
		"wrong signature": func(h http.Header) { h.Set("Webhook-Id", "msg_2") },
	} {
		h := sign(t, webhook.Standard, secret, body)
		change(h)
		_, err := v.Verify(h, body)
		reason := refusedFor(t, err)
		if reason == "" || seen[reason] {
			t.Errorf("%s: reason %q is empty or not its own", name, reason)
		}
		seen[reason] = true
	}
}

// One verifier and one signer serve many goroutines, each with a body of its own.
func TestConcurrentUse(t *testing.T) {
	secret := newSecret(webhook.Standard)
	v := newVerifier(t, webhook.Standard, secret)
	signer, err := webhook.NewSigner(webhook.Standard, webhook.SecretText(secret))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			body := bytes.Repeat([]byte{byte(i)}, 1000)
			for range 100 {
				h := http.Header{}
				if err := signer.Sign(h, "msg_1", now, body); err != nil {
					t.Error(err)
				}
				if _, err := v.Verify(h, body); err != nil {
					t.Error(err)
				}
				if _, err := v.Verify(h, body[1:]); err == nil {
					t.Error("a shorter body passed")
				}
			}
		})
	}
	all.Wait()
}
