package webhook

import (
	"fmt"
	"io"
	"net/http"
	"time"

	internal "github.com/openlup/pgrail/internal/webhook"
)

// Verifier verifies the deliveries of one sender. It is safe for concurrent use, and printing it shows no secret.
type Verifier struct {
	scheme string
	ring   *internal.Keyring
	settings
}

// NewVerifier returns a verifier that accepts what any of the secrets has signed: give the new and the old one while
// they are being exchanged. Every unusable argument is a [*ArgumentError] that names it.
func NewVerifier(scheme Scheme, secrets []Secret, options ...Option) (*Verifier, error) {
	ring, err := internal.NewKeyring(internal.Scheme(scheme), unwrap(secrets))
	if err != nil {
		return nil, exported(err)
	}
	s, err := newSettings(options)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme.Name, ring, s}, nil
}

// Verify checks the headers of a delivery against its body, exactly as received. The error is a [*SignatureError].
func (v *Verifier) Verify(header http.Header, body []byte) (Delivery, error) {
	claim, err := v.ring.Verify(header, body, v.now())
	if err != nil {
		return Delivery{}, exported(err)
	}
	return v.delivery(claim, body), nil
}

// Receive reads a request's body and verifies it. The errors are those of [ReadBody], for the limit set with
// [WithMaxBodyBytes], and of [Verifier.Verify]; [StatusCode] has the answer to each.
func (v *Verifier) Receive(r *http.Request) (Delivery, error) {
	body, err := internal.ReadBody(r, v.limit)
	if err != nil {
		return Delivery{}, exported(err)
	}
	return v.Verify(r.Header, body)
}

// Stream verifies a body while it is read, for a body that is only forwarded and need not fit into memory. Headers that
// rule the delivery out are refused at once. A read ends with [io.EOF] only after the signature has matched, otherwise
// with the errors of [Verifier.Receive].
//
// The last byte is given out only after that check, so a peer that was told the body's length never gets a whole body
// that was not proved. Everything before it is unproved while it is read: nothing may be done with it before the end that
// cannot be undone. Closing the stream closes the request's body.
func (v *Verifier) Stream(r *http.Request) (io.ReadCloser, error) {
	s, err := v.ring.Stream(r, v.limit, v.now())
	if err != nil {
		return nil, exported(err)
	}
	return stream{s}, nil
}

type stream struct{ *internal.Stream }

func (s stream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	return n, exported(err)
}

// Format implements [fmt.Formatter] for every verb.
func (v Verifier) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "webhook.Verifier(%s)", v.scheme) }

func (v *Verifier) delivery(c internal.Claim, body []byte) Delivery {
	d := Delivery{Scheme: v.scheme, ID: c.ID, Body: body}
	if c.Timestamp != "" {
		d.Timestamp = time.Unix(c.Unix, 0).UTC()
	}
	return d
}
