package webhook_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/openlup/pgrail/webhook"
)

// fuzzPreset compares a preset with the oracle. In the header the fuzzer writes, $ stands for the right signature over the
// id, timestamp and body it chose, so that its inputs reach what lies behind the comparison.
func fuzzPreset(f *testing.F, s webhook.Scheme, headers ...string) {
	key := "0123456789abcdef01234567"
	secret := key
	if s.SecretPrefix != "" {
		secret = s.SecretPrefix + base64.StdEncoding.EncodeToString([]byte(key))
	}
	v := newVerifier(f, s, secret)
	for _, header := range append(headers, "", "$", " $", "$ ", "$,$", "$\n", strings.Repeat("0", 64), strings.Repeat("z", 64)) {
		f.Add(header, "1790000000", "msg_1", "{}", false)
		f.Add(header, "1789999699", "msg.1", "\x00\r\n", true)
		f.Add(header, "+1790000000", "", "", false)
	}
	f.Fuzz(func(t *testing.T, header, timestamp, id, body string, twice bool) {
		right := plainSignature(s.Name, key, id, timestamp, body)
		h := http.Header{s.SignatureHeader: {strings.ReplaceAll(header, "$", right)}}
		if s.TimestampHeader != "" {
			h[s.TimestampHeader] = []string{timestamp}
		}
		if s.IDHeader != "" {
			h[s.IDHeader] = []string{id}
		}
		if twice {
			h[s.SignatureHeader] = append(h[s.SignatureHeader], right)
		}
		want := plainValid(s, key, now.Unix(), h, body)
		checkEverywhere(t, s, []string{secret}, now, h, []byte(body), want)
		d, err := v.Verify(h, []byte(body))
		if err == nil && len(d.Key()) != 64 {
			t.Errorf("key %q", d.Key())
		}
	})
}

func FuzzHex(f *testing.F) { fuzzPreset(f, webhook.Hex) }
func FuzzGitHub(f *testing.F) {
	fuzzPreset(f, webhook.GitHub, "sha256=$", "sha1=$", "xxsha256=$", "SHA256=$")
}
func FuzzShopify(f *testing.F) { fuzzPreset(f, webhook.Shopify, "$=", "=$") }
func FuzzSlack(f *testing.F)   { fuzzPreset(f, webhook.Slack, "v0=$", "v1=$", "v0=v0=$", "v0=$,v0=$") }

func FuzzStripe(f *testing.F) {
	fuzzPreset(f, webhook.Stripe, "t=1790000000,v1=$", "v1=$,t=1790000000", "t=1790000000,v1=00,v1=$", "t=1790000000,v0=$",
		"t=1790000000,t=1790000000,v1=$", "t=,v1=$", "t=+1790000000,v1=$", "t=9223372036854775808,v1=$", "v1=$", "t=1790000000, v1=$")
}

func FuzzStandard(f *testing.F) {
	fuzzPreset(f, webhook.Standard, "v1,$", "v1a,AAAA v1,AAAA v1,$", "v1,", "v2,$", "v1,$ v1,$", "v1,$  ", "v1, $", "v1,v1,$")
}

// FuzzReadBodyAndVerify sends a body in pieces under a declared length and a cap, and compares with what plainly follows
// from the three numbers and the signature.
func FuzzReadBodyAndVerify(f *testing.F) {
	secret := newSecret(webhook.Hex)
	for _, body := range []string{"", "{}", "0123456789", strings.Repeat("[", 5000)} {
		for _, declared := range []int64{-1, 0, 2, 10, 11, 1 << 40} {
			f.Add([]byte(body), declared, uint16(10), uint8(1), true, false)
			f.Add([]byte(body), declared, uint16(4999), uint8(0), false, true)
			f.Add([]byte(body), declared, uint16(5000), uint8(255), true, true)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, declared int64, limit uint16, chunk uint8, signed, dataWithEOF bool) {
		v := newVerifier(t, webhook.Hex, secret, webhook.WithMaxBodyBytes(int64(limit)+1))
		h := http.Header{"X-Signature": {plainHex(secret, string(body))}}
		if !signed {
			h = http.Header{"X-Signature": {plainHex(secret, string(body)+"x")}}
		}
		newRequest := func() *http.Request {
			var src io.Reader = &pieces{bytes.NewReader(body), int(chunk) + 1}
			if dataWithEOF {
				src = iotest.DataErrReader(src)
			}
			r := request(h, src)
			r.ContentLength = declared
			return r
		}
		check := func(way string, got []byte, err error) {
			var large *webhook.BodyTooLargeError
			over := int64(len(body)) > int64(limit)+1 || declared > int64(limit)+1
			eaten := !over && int64(len(body)) < declared
			invalid := !over && !eaten && !signed
			if errors.As(err, &large) != over || errors.Is(err, webhook.ErrBodyConsumed) != eaten || errors.Is(err, webhook.ErrInvalidSignature) != invalid {
				t.Errorf("%s: %v", way, err)
			}
			if err == nil && !bytes.Equal(got, body) {
				t.Errorf("%s: %q, want %q", way, got, body)
			}
		}
		d, err := v.Receive(newRequest())
		if check("Receive", d.Body, err); err != nil && d.Body != nil {
			t.Errorf("Receive: %d bytes beside %v", len(d.Body), err)
		}
		streamed, err := readStream(v, newRequest())
		if check("Stream", streamed, err); err != nil && len(body) > 0 && len(streamed) >= len(body) {
			t.Errorf("Stream: a whole body beside %v", err)
		}
	})
}
