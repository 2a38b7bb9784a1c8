package webhook

import (
	"errors"
	"net/http"

	internal "github.com/openlup/pgrail/internal/webhook"
)

// ErrInvalidSignature is every failed verification; each is a [*SignatureError].
var ErrInvalidSignature = errors.New("webhook: invalid signature")

// SignatureError is a delivery that failed verification. Its text is the same for every cause, to be safe to show.
type SignatureError struct {
	// Reason says what was wrong, for logs only: it would tell a forger what to mend. It quotes no input and no secret.
	Reason string
}

func (e *SignatureError) Error() string { return ErrInvalidSignature.Error() }

// Unwrap returns [ErrInvalidSignature].
func (e *SignatureError) Unwrap() error { return ErrInvalidSignature }

// ArgumentError is an argument that cannot be used. It does not quote the value.
type ArgumentError struct {
	Name    string // of the argument or field; secrets and options are counted from 1
	Problem string // what it must or must not be
}

func (e *ArgumentError) Error() string { return (*internal.Invalid)(e).Error() }

// StatusCode is the HTTP status that answers an error of this package: 413 for a body over the limit, 401 for a failed
// verification, 408 for a body that did not come in time, 400 for any other.
func StatusCode(err error) int {
	var large *BodyTooLargeError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrInvalidSignature):
		return http.StatusUnauthorized
	case errors.Is(err, ErrBodyTimeout):
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

// exported gives an error of the mechanism its public type.
func exported(err error) error {
	switch e := err.(type) {
	case *internal.TooLarge:
		return (*BodyTooLargeError)(e)
	case *internal.Refusal:
		refused := SignatureError(*e) // a copy: the mechanism shares its values
		return &refused
	case *internal.Invalid:
		return (*ArgumentError)(e)
	}
	return err
}
