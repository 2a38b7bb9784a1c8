package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
)

// Config is what an [Inbox] is made of.
type Config struct {
	// Source names the sender, and is the space in which its messages are told apart: 1 to 255 bytes of UTF-8, not blank.
	// Give each sender, and each account that has a secret of its own, a source of its own, and never rename one.
	Source string

	// Draft makes the event of a delivery. It is called before the transaction, for repeats too, and by several goroutines
	// at once. An empty IdempotencyKey becomes the source, a slash and the delivery's key, which keeps the event single
	// for as long as the outbox remembers it, even after Retention.
	//
	// [ErrIgnored] and [*RefusedError] are answers to the sender, in the place of an event. Any other error is a failure of
	// this application, to be tried again: its text is logged, and so must not quote the delivery.
	Draft func(ctx context.Context, d webhook.Delivery) (event.Draft, error)

	// Retention is how long a message is recognised at least: 1 hour to 87600 hours (10 years); 0 means 720 hours
	// (30 days). It should exceed the time over which the sender retries. Where no time of sending is signed, it is also
	// how long a delivery that someone has captured cannot be played again.
	Retention time.Duration

	// Timeout bounds Draft and the transaction together: over 0 and at most 1 hour; 0 means 10 seconds. Senders give up
	// waiting after 3 (Slack) to 20 seconds (Stripe), and then deliver again.
	Timeout time.Duration

	// Logger gets failures and refusals, with the reference that the sender was given, and at level Debug what went well;
	// never a body or a secret. Nil means [slog.Default].
	Logger *slog.Logger
}

const (
	maxSourceBytes   = 255
	defaultRetention = 30 * 24 * time.Hour
	minRetention     = time.Hour
	maxRetention     = 3650 * 24 * time.Hour
	defaultTimeout   = 10 * time.Second
	maxTimeout       = time.Hour
)

func (c Config) withDefaults() Config {
	if c.Retention == 0 {
		c.Retention = defaultRetention
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) check() error {
	rules := []struct {
		field, allowed string
		ok             bool
	}{
		{"Source", "must be 1 to 255 bytes of UTF-8 without NUL, not blank", isSource(c.Source)},
		{"Draft", "must be set", c.Draft != nil},
		{"Retention", "must be 1h to 87600h, or 0 for 720h", c.Retention >= minRetention && c.Retention <= maxRetention},
		{"Timeout", "must be over 0 and at most 1h, or 0 for 10s", c.Timeout > 0 && c.Timeout <= maxTimeout},
	}
	for _, r := range rules {
		if !r.ok {
			return &ConfigError{Field: "Config." + r.field, Rule: r.allowed}
		}
	}
	return nil
}

func isSource(s string) bool {
	return strings.TrimSpace(s) != "" && len(s) <= maxSourceBytes && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

// isNil also finds an interface that holds a nil pointer.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// ConfigError says which argument or field of [New] cannot be used.
type ConfigError struct {
	Field string // "pool", "verifier" or the field, as in "Config.Source"
	Rule  string // what it must be
}

func (e *ConfigError) Error() string { return fmt.Sprintf("inbox: %s %s", e.Field, e.Rule) }
