package webhook

import (
	"fmt"
	"net/http"
	"time"

	internal "github.com/openlup/pgrail/internal/webhook"
)

// Signer signs deliveries: the sending side of a [Scheme]. It is safe for concurrent use, and printing it shows no
// secret.
type Signer struct {
	scheme string
	ring   *internal.Keyring
}

// NewSigner returns a signer. Every unusable argument is a [*ArgumentError] that names it.
func NewSigner(scheme Scheme, secret Secret) (*Signer, error) {
	ring, err := internal.NewKeyring(internal.Scheme(scheme), unwrap([]Secret{secret}))
	if err != nil {
		return nil, exported(err)
	}
	return &Signer{scheme.Name, ring}, nil
}

// Sign sets the headers of one delivery of body, in place of any it had. A scheme that signs an id needs one: printable
// ASCII, the same for every try to deliver the message, without the character that ends it in the signed content (a full
// stop in [Standard]). A scheme that signs the time of sending needs one from 1970 on; fractions of a second are dropped.
// Schemes that sign neither ignore them. The error is a [*ArgumentError].
func (s *Signer) Sign(header http.Header, id string, at time.Time, body []byte) error {
	return exported(s.ring.Sign(header, id, at, body))
}

// Format implements [fmt.Formatter] for every verb.
func (s Signer) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "webhook.Signer(%s)", s.scheme) }
