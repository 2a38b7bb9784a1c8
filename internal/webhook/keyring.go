package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Keyring is a scheme with the secrets that may sign under it. It is safe for concurrent use.
type Keyring struct {
	layout *layout
	keys   []*key
}

// NewKeyring refuses a scheme or secret that cannot be used; secrets are named by their place, from 1.
func NewKeyring(s Scheme, secrets []Secret) (*Keyring, error) {
	l, err := newLayout(s)
	if err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, &Invalid{"secrets", "must hold at least one"}
	}
	ring := &Keyring{layout: l}
	for i, secret := range secrets {
		value, problem := reveal(secret, s.SecretPrefix)
		if problem != "" {
			return nil, &Invalid{"secret " + strconv.Itoa(i+1), problem}
		}
		ring.keys = append(ring.keys, newKey(value))
	}
	return ring, nil
}

// reveal takes the zero Secret for what it is: none.
func reveal(s Secret, prefix string) ([]byte, string) {
	if s == nil {
		return nil, "must not be empty"
	}
	return s(prefix)
}

// Verify returns the claim of a delivery that one of the secrets signed.
func (r *Keyring) Verify(h http.Header, body []byte, now time.Time) (Claim, error) {
	a, err := r.begin(h, now)
	if err != nil {
		return Claim{}, err
	}
	a.write(body)
	return a.claim, a.verdict()
}

// Sign writes the headers of a delivery, signed with the first secret.
func (r *Keyring) Sign(h http.Header, id string, at time.Time, body []byte) error {
	l := r.layout
	if h == nil {
		return &Invalid{"header", "must not be nil"}
	}
	c, err := l.newClaim(id, at)
	if err != nil {
		return err
	}
	m := r.keys[0].get()
	defer r.keys[0].put(m)
	m.hash.Write(l.preamble(c))
	m.hash.Write(body)
	l.writeHeaders(h, c, string(m.finish(l.encoding)))
	return nil
}

// newClaim leaves out what the scheme does not sign, so that a sender can treat all schemes alike.
func (l *layout) newClaim(id string, at time.Time) (c Claim, err error) {
	if l.IDHeader != "" {
		if !l.validID(id) {
			return c, &Invalid{"id", "must be printable ASCII without " + strconv.Quote(l.idStop)}
		}
		c.ID = id
	}
	if l.TimestampHeader+l.TimestampPrefix != "" {
		if at.Unix() < 0 {
			return c, &Invalid{"time", "must not lie before 1970"}
		}
		c.Timestamp = strconv.FormatInt(at.Unix(), 10)
	}
	return c, nil
}

// writeHeaders replaces what is there: a second value would be refused.
func (l *layout) writeHeaders(h http.Header, c Claim, mac string) {
	signature := l.prefix + mac
	if l.TimestampPrefix != "" {
		signature = strings.Join([]string{l.TimestampPrefix + c.Timestamp, signature}, l.Separator)
	}
	h.Set(l.SignatureHeader, signature)
	if l.TimestampHeader != "" {
		h.Set(l.TimestampHeader, c.Timestamp)
	}
	if l.IDHeader != "" {
		h.Set(l.IDHeader, c.ID)
	}
}
