package webhook

import (
	"net/http"

	internal "github.com/openlup/pgrail/internal/webhook"
)

// MaxBodyBytes is the largest body accepted by default, in bytes. A body of exactly this size is accepted.
const MaxBodyBytes = 1 << 20

// ReadBody returns the body of a server's request, byte for byte and of at most [MaxBodyBytes]. No body at all is an empty
// one. On an error there are no bytes: a [*BodyTooLargeError], raised before anything is read if the declared length
// tells, [ErrBodyConsumed], [ErrBodyUnreadable] or [ErrBodyTimeout].
//
// It waits as long as the connection's read deadline allows; [Verifier.Middleware] sets one.
func ReadBody(r *http.Request) ([]byte, error) {
	body, err := internal.ReadBody(r, MaxBodyBytes)
	return body, exported(err)
}

// The faults of a body that carry no data of their own. Errors wrap them together with the cause; match with [errors.Is].
var (
	// ErrBodyConsumed: other code, such as a form parser, read the body first. The server is at fault, not the sender.
	ErrBodyConsumed = internal.ErrBodyConsumed

	// ErrBodyUnreadable: the body was cut short or its transfer coding is broken. A body cut short is also an
	// [io.ErrUnexpectedEOF].
	ErrBodyUnreadable = internal.ErrBodyUnreadable

	// ErrBodyTimeout: the body did not come before the connection's read deadline.
	ErrBodyTimeout = internal.ErrBodyTimeout
)

// BodyTooLargeError is a body over the limit.
type BodyTooLargeError struct {
	Limit int64 // in bytes
}

func (e *BodyTooLargeError) Error() string { return (*internal.TooLarge)(e).Error() }
