package identity

import (
	"log/slog"
	"reflect"

	"github.com/openlup/pgrail/internal/identity"
)

// Config is what a [Service] is made of.
type Config struct {
	Gateway     Gateway         // required
	Invitations InvitationStore // optional; an interface that holds a nil pointer counts as none
	Messages    Messages        // the zero value means English
	Logger      *slog.Logger    // nil means slog.Default; gets causes and references, never tokens
}

// New makes a Service. It fails with a [ConfigError] if there is no Gateway or if Messages are filled in part.
func New(config Config) (*Service, error) {
	if identity.IsNil(config.Gateway) {
		return nil, &ConfigError{Field: "Gateway", Rule: "must be set"}
	}
	messages, field := complete(config.Messages)
	if field != "" {
		return nil, &ConfigError{Field: "Messages." + field, Rule: "must be set, as all others: start from English or German"}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Service{inner: identity.Service{
		Gateway:     config.Gateway,
		Invitations: config.Invitations,
		Messages:    identity.Messages(messages),
		Logger:      config.Logger,
	}}, nil
}

// complete answers English for the zero value, or names the first field that is not set.
func complete(m Messages) (Messages, string) {
	value := reflect.ValueOf(m)
	if value.IsZero() {
		return English(), ""
	}
	for i := range value.NumField() {
		if value.Field(i).IsZero() {
			return m, value.Type().Field(i).Name
		}
	}
	return m, ""
}
