package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrInvalid is matched by every [*InvalidError].
var ErrInvalid = errors.New("event: invalid")

// InvalidError says which field of a draft or definition is wrong. It carries no payload and no key.
type InvalidError struct {
	// Field is the Go name of the field.
	Field string
	// Problem says what is wrong with it.
	Problem string
	// Allowed says what would be right.
	Allowed string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("event: %s %s (allowed: %s)", e.Field, e.Problem, e.Allowed)
}

// Is makes every InvalidError match [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func checkText(field, value string, limit int) error {
	var problem string
	switch {
	case strings.TrimSpace(value) == "":
		problem = "is blank"
	case len(value) > limit:
		problem = fmt.Sprintf("has %d bytes", len(value))
	case !utf8.ValidString(value):
		problem = "is not UTF-8"
	case strings.IndexByte(value, 0) >= 0:
		problem = "has a NUL character"
	default:
		return nil
	}
	return &InvalidError{field, problem, fmt.Sprintf("1 to %d bytes of UTF-8, not blank, without NUL", limit)}
}

func checkDelay(delay time.Duration) error {
	if delay < 0 || delay > MaxDelay {
		return &InvalidError{"Delay", "is " + delay.String(), "0 to " + MaxDelay.String()}
	}
	return nil
}

func encode(field string, value any) (json.RawMessage, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, &InvalidError{field, fmt.Sprintf("cannot be encoded (%T)", err), "what encoding/json can encode"}
	}
	return encoded, nil
}
