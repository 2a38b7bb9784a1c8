package webhook

import (
	"fmt"
	"log/slog"
	"time"
)

// Option changes a [Verifier] from its defaults.
type Option func(*settings)

type settings struct {
	now     func() time.Time
	limit   int64
	timeout time.Duration
	logger  *slog.Logger
}

const (
	maxLimit       = 1 << 30
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Hour
)

// WithClock sets the clock that signed timestamps are compared with. The default is [time.Now].
func WithClock(now func() time.Time) Option {
	return func(s *settings) { s.now = now }
}

// WithMaxBodyBytes sets the largest body accepted, from 1 byte to 1 GiB. The default is [MaxBodyBytes].
func WithMaxBodyBytes(limit int64) Option {
	return func(s *settings) { s.limit = limit }
}

// WithReadTimeout sets how long [Verifier.Middleware] waits for the whole body, up to an hour. The default is 10 seconds.
// It takes the place of the server's ReadTimeout while the body is read, on connections that support read deadlines.
func WithReadTimeout(d time.Duration) Option {
	return func(s *settings) { s.timeout = d }
}

// WithLogger sets where [Verifier.Middleware] logs what it refuses. The default is [slog.Default] as it
// is when the verifier is built.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) { s.logger = l }
}

func newSettings(options []Option) (settings, error) {
	s := settings{now: time.Now, limit: MaxBodyBytes, timeout: defaultTimeout, logger: slog.Default()}
	for i, set := range options {
		if set == nil {
			return s, &ArgumentError{fmt.Sprintf("option %d", i+1), "must not be nil"}
		}
		set(&s)
	}
	return s, s.check()
}

func (s settings) check() error {
	switch {
	case s.now == nil:
		return &ArgumentError{"WithClock", "must not be nil"}
	case s.limit < 1 || s.limit > maxLimit:
		return &ArgumentError{"WithMaxBodyBytes", fmt.Sprintf("must be 1 to %d", maxLimit)}
	case s.timeout <= 0 || s.timeout > maxTimeout:
		return &ArgumentError{"WithReadTimeout", "must be over 0 and at most 1h"}
	case s.logger == nil:
		return &ArgumentError{"WithLogger", "must not be nil"}
	}
	return nil
}
