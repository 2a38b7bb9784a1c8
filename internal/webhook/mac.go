package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
)

// encoding writes a MAC as text. There is one way to write each MAC, so comparing texts accepts nothing that decoding
// would have to forgive: no upper case, no other padding.
type encoding struct {
	placeholder string
	size        int
	encode      func(dst, src []byte)
}

var encodings = []encoding{
	{"{hex}", hex.EncodedLen(sha256.Size), func(dst, src []byte) { hex.Encode(dst, src) }},
	{"{base64}", base64.StdEncoding.EncodedLen(sha256.Size), base64.StdEncoding.Encode},
}

func splitSignature(template string) (prefix string, e encoding, ok bool) {
	for _, e := range encodings {
		if prefix, ok := strings.CutSuffix(template, e.placeholder); ok {
			return prefix, e, true
		}
	}
	return "", encoding{}, false
}

// key keeps ready-made MACs of one secret: setting one up costs more than hashing a small body. The secret lives in
// closures only, where no printer that walks structs can reach it.
type key struct{ macs sync.Pool }

func newKey(secret []byte) *key {
	return &key{sync.Pool{New: func() any { return &mac{hash: hmac.New(sha256.New, secret)} }}}
}

func (k *key) get() *mac {
	m := k.macs.Get().(*mac)
	m.hash.Reset()
	return m
}

func (k *key) put(m *mac) { k.macs.Put(m) }

// mac is one MAC under way, with room for its result and for a value to compare, so that neither is allocated anew.
type mac struct {
	hash  hash.Hash
	sum   [sha256.Size]byte
	text  [2 * sha256.Size]byte
	given [2 * sha256.Size]byte
}

// finish returns the MAC as text; it stays valid until the mac is put back.
func (m *mac) finish(e encoding) []byte {
	e.encode(m.text[:e.size], m.hash.Sum(m.sum[:0]))
	return m.text[:e.size]
}

// equal compares in constant time after a length check.
func (m *mac) equal(text []byte, given string) bool {
	if len(given) != len(text) {
		return false
	}
	n := copy(m.given[:], given)
	return subtle.ConstantTimeCompare(text, m.given[:n]) == 1
}
