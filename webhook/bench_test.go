package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/openlup/pgrail/webhook"
)

func BenchmarkVerify(b *testing.B) {
	for _, s := range presets {
		for _, size := range []int{256, 16 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", s.Name, size), func(b *testing.B) {
				body := bytes.Repeat([]byte("x"), size)
				secret := newSecret(s)
				v, h := newVerifier(b, s, secret), sign(b, s, secret, body)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := v.Verify(h, body); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAgainstBareHMAC runs Verify and the least a verifier could do in turns, so that both meet the same noise, and
// reports the speed of Verify as a share of the bare one's, by their medians.
func BenchmarkAgainstBareHMAC(b *testing.B) {
	for _, size := range []int{256, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			body := bytes.Repeat([]byte("x"), size)
			secret := newSecret(webhook.Hex)
			v, h := newVerifier(b, webhook.Hex, secret), sign(b, webhook.Hex, secret, body)
			given, err := hex.DecodeString(h.Get("X-Signature"))
			if err != nil {
				b.Fatal(err)
			}
			verify := func() bool { _, err := v.Verify(h, body); return err == nil }
			bare := func() bool {
				m := hmac.New(sha256.New, []byte(secret))
				m.Write(body)
				return hmac.Equal(m.Sum(nil), given)
			}
			var verified, plain []time.Duration
			for b.Loop() {
				// Each comes first every other time: the second finds the body in the cache.
				if len(plain)%2 == 0 {
					verified = append(verified, timed(b, verify))
					plain = append(plain, timed(b, bare))
				} else {
					plain = append(plain, timed(b, bare))
					verified = append(verified, timed(b, verify))
				}
			}
			b.ReportMetric(float64(median(plain))/float64(median(verified)), "of-bare")
		})
	}
}

func timed(b *testing.B, run func() bool) time.Duration {
	start := time.Now()
	if !run() {
		b.Fatal("refused")
	}
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{256, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			body := bytes.Repeat([]byte("x"), size)
			secret := newSecret(webhook.GitHub)
			v, h := newVerifier(b, webhook.GitHub, secret), sign(b, webhook.GitHub, secret, body)
			src := bytes.NewReader(body)
			r := request(h, src)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(body)
				if _, err := v.Receive(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
