package event_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openlup/pgrail/outbox/event"
)

var errCause = errors.New("the cause")

// Every outcome keeps its cause for errors.Is and errors.As, and names it in its text.
func TestOutcomesKeepTheirCause(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		event.Discard(errCause), event.Snooze(time.Minute, errCause), event.RetryAfter(time.Minute, errCause), event.Unavailable(errCause),
	} {
		if !errors.Is(fmt.Errorf("wrapped: %w", err), errCause) || !strings.Contains(err.Error(), "the cause") {
			t.Errorf("%T %v has lost its cause", err, err)
		}
	}
	for _, err := range []error{event.Discard(nil), event.Snooze(0, nil), event.RetryAfter(0, nil), event.Unavailable(nil)} {
		if err.Error() == "" || errors.Unwrap(err) != nil {
			t.Errorf("%T without a cause: %q", err, err)
		}
	}
}

func TestFromStatus(t *testing.T) {
	t.Parallel()
	kind := func(err error) string {
		var discard *event.DiscardError
		switch {
		case err == nil:
			return "nil"
		case event.IsUnavailable(err):
			return "unavailable"
		case errors.As(err, &discard):
			return "discard"
		}
		return "retry"
	}
	want := map[int]string{200: "nil", 201: "nil", 299: "nil", 100: "retry", 199: "retry", 300: "retry", 304: "retry",
		400: "discard", 401: "discard", 404: "discard", 408: "retry", 409: "retry", 410: "discard", 422: "discard", 423: "retry",
		425: "retry", 429: "unavailable", 499: "discard", 500: "retry", 501: "retry", 502: "unavailable", 503: "unavailable",
		504: "unavailable", 507: "retry", 599: "retry", 0: "retry"}
	for status, outcome := range want {
		err := event.FromStatus(status)
		if got := kind(err); got != outcome {
			t.Errorf("%d: %s, want %s", status, got, outcome)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: %v does not name the status", status, err)
		}
	}
}

func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	// Errors of the standard library as they really come.
	refusing := httptest.NewServer(http.NotFoundHandler())
	refusing.Close()
	_, refused := http.Get(refusing.URL)
	hung := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	defer slow.Close()
	defer close(hung)
	_, timedOut := (&http.Client{Timeout: time.Millisecond}).Get(slow.URL)

	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                 {nil, false},
		"plain":               {errCause, false},
		"unavailable":         {fmt.Errorf("call: %w", event.Unavailable(errCause)), true},
		"deadline":            {fmt.Errorf("call: %w", context.DeadlineExceeded), true},
		"cancelled":           {context.Canceled, false},
		"refused, for real":   {refused, true},
		"timed out, for real": {timedOut, true},
		"file deadline":       {os.ErrDeadlineExceeded, true},
		"refused":             {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
		"reset":               {&url.Error{Op: "Post", Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}, true},
		"no host route":       {syscall.EHOSTUNREACH, true},
		"no net route":        {syscall.ENETUNREACH, true},
		"no such host":        {&net.DNSError{Err: "no such host", IsNotFound: true}, false},
		"resolver timeout":    {&net.DNSError{Err: "timeout", IsTimeout: true}, true},
		"no permission":       {syscall.EACCES, false},
		"discard":             {event.Discard(errCause), false},
	} {
		if got := event.IsUnavailable(c.err); got != c.want {
			t.Errorf("%s (%v): %v", name, c.err, got)
		}
	}
}
