package webhook

import (
	"net/http"
	"strings"
	"time"
)

// attempt is one delivery under verification, with a MAC for each secret that may have signed it. All of them are always
// computed, so the time taken tells nothing about which one matched.
type attempt struct {
	ring  *Keyring
	claim Claim
	macs  []*mac
}

// begin reads the headers; a delivery they rule out is refused before a byte of its body is hashed.
func (r *Keyring) begin(h http.Header, now time.Time) (attempt, error) {
	c, err := r.layout.claim(h, now)
	if err != nil {
		return attempt{}, err
	}
	a := attempt{r, c, make([]*mac, len(r.keys))}
	for i, k := range r.keys {
		a.macs[i] = k.get()
	}
	a.write(r.layout.preamble(c))
	return a, nil
}

func (a *attempt) write(p []byte) {
	for _, m := range a.macs {
		m.hash.Write(p)
	}
}

// verdict may be asked for once: it hands the MACs back.
func (a *attempt) verdict() error {
	matched := false
	for i, m := range a.macs {
		matched = a.ring.layout.matches(a.claim.signatures, m) || matched
		a.ring.keys[i].put(m)
	}
	a.macs = nil
	if !matched {
		return errMismatch
	}
	return nil
}

// matches looks at every listed signature. Elements of another kind are other versions or other fields, not faults.
func (l *layout) matches(signatures string, m *mac) bool {
	text := m.finish(l.encoding)
	if l.Separator == "" {
		given, ok := strings.CutPrefix(signatures, l.prefix)
		return ok && m.equal(text, given)
	}
	matched := false
	for element := range strings.SplitSeq(signatures, l.Separator) {
		given, ok := strings.CutPrefix(element, l.prefix)
		matched = ok && m.equal(text, given) || matched
	}
	return matched
}
