//go:build !race

// The race detector's build makes sync.Pool drop values at random, so allocations are counted without it.

package webhook_test

import (
	"bytes"
	"testing"
)

func TestVerifyAllocations(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 256)
	for _, s := range presets {
		secret := newSecret(s)
		v := newVerifier(t, s, secret)
		h := sign(t, s, secret, body)
		var err error
		allocs := testing.AllocsPerRun(1000, func() { _, err = v.Verify(h, body) })
		if err != nil || allocs > 2 {
			t.Errorf("%s: %v allocations, error %v", s.Name, allocs, err)
		}
	}
}
