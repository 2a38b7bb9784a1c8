package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Delivery is a verified delivery. Everything in it was signed; headers that were not signed are left out on purpose.
type Delivery struct {
	// Scheme is the name of the scheme.
	Scheme string

	// ID is the sender's id of the message, empty if the scheme signs none. It is printable ASCII.
	ID string

	// Timestamp is the time of sending in UTC, zero if the scheme signs none.
	Timestamp time.Time

	// Body is the body, byte for byte. It must not be changed.
	Body []byte
}

// Key identifies the message: it is the same for every delivery of it and does not depend on any header that could be
// changed without the secret. It is the SHA-256, in 64 lower-case hex digits, of ID if the scheme signs one, else of Body.
//
// The timestamp is left out although it is signed: senders renew it when they retry. So two messages of a scheme that signs
// no id are taken for one if they agree in every byte; a sender prevents that with an id or a time in each body, as Slack
// and Stripe do with the ids of their events.
//
// Key hashes the body anew on each call.
func (d Delivery) Key() string {
	identity := d.Body
	if d.ID != "" {
		identity = []byte(d.ID)
	}
	sum := sha256.Sum256(identity)
	return hex.EncodeToString(sum[:])
}

type contextKey struct{}

// FromContext returns the delivery that [Verifier.Middleware] has verified for this request, and whether there is one.
func FromContext(ctx context.Context) (Delivery, bool) {
	d, ok := ctx.Value(contextKey{}).(Delivery)
	return d, ok
}
