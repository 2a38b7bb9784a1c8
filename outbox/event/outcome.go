package event

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// ErrUndecodable is matched by the error of a payload that does not fit its definition. A
// handler that ends with it has the event discarded at once: trying again would not help.
var ErrUndecodable = errors.New("event: payload does not fit its definition")

// DiscardError ends an event for good.
type DiscardError struct{ cause error }

// Discard returns an error that ends the event for good, with cause as the reason on record.
func Discard(cause error) error { return &DiscardError{cause} }

func (e *DiscardError) Error() string { return fmt.Sprintf("discard: %v", e.cause) }
func (e *DiscardError) Unwrap() error { return e.cause }

// SnoozeError puts an event off without counting the attempt.
type SnoozeError struct {
	// Delay until the next try, by the database's clock; 0 means the worker's default.
	Delay time.Duration
	cause error
}

// Snooze returns an error that puts the event off for delay, 0 to 24 hours, without counting the
// attempt; 0 means the worker's default. Cause may be nil.
func Snooze(delay time.Duration, cause error) error { return &SnoozeError{delay, cause} }

func (e *SnoozeError) Error() string { return fmt.Sprintf("snooze for %v: %v", e.Delay, e.cause) }
func (e *SnoozeError) Unwrap() error { return e.cause }

// RetryError is a failure whose next try has a time of its own.
type RetryError struct {
	// Delay until the next try, by the database's clock.
	Delay time.Duration
	cause error
}

// RetryAfter returns an error that counts the attempt and tries again after delay, 0 to 24 hours,
// instead of by the worker's backoff.
func RetryAfter(delay time.Duration, cause error) error { return &RetryError{delay, cause} }

func (e *RetryError) Error() string { return fmt.Sprintf("retry after %v: %v", e.Delay, e.cause) }
func (e *RetryError) Unwrap() error { return e.cause }

// UnavailableError says that what the handler needs is out, so that every event of the type would fail alike.
type UnavailableError struct{ cause error }

// Unavailable returns an error that snoozes the event and pauses its type: the downstream is
// out, and trying the other events would only spend their attempts.
func Unavailable(cause error) error { return &UnavailableError{cause} }

func (e *UnavailableError) Error() string { return fmt.Sprintf("downstream unavailable: %v", e.cause) }
func (e *UnavailableError) Unwrap() error { return e.cause }

// FromStatus turns the status of an HTTP answer into the matching outcome: nil for 2xx, [Unavailable] for 429, 502, 503
// and 504, [Discard] for the other 4xx but 408, 409, 423 and 425, and a plain error for the rest.
func FromStatus(status int) error {
	if status >= 200 && status < 300 {
		return nil
	}
	cause := fmt.Errorf("HTTP status %d", status)
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable(cause)
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly:
		return cause
	}
	if status >= 400 && status < 500 {
		return Discard(cause)
	}
	return cause
}

// IsUnavailable reports whether err says that a downstream is out: an [UnavailableError], a deadline exceeded, a
// network timeout, or a connection refused, reset or without a route.
func IsUnavailable(err error) bool {
	var unavailable *UnavailableError
	var network net.Error
	switch {
	case errors.As(err, &unavailable), errors.Is(err, context.DeadlineExceeded):
		return true
	case errors.As(err, &network) && network.Timeout():
		return true
	}
	for _, errno := range []syscall.Errno{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
