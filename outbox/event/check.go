package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	allowed := fmt.Sprintf("1 to %d bytes of UTF-8, not blank, without NUL", limit)
	switch {
	case strings.TrimSpace(value) == "":
		return &InvalidError{field, "is blank", allowed}
	case len(value) > limit:
		return &InvalidError{field, fmt.Sprintf("has %d bytes", len(value)), allowed}
	case !utf8.ValidString(value):
		return &InvalidError{field, "is not UTF-8", allowed}
	case strings.ContainsRune(value, 0):
		return &InvalidError{field, "has a NUL character", allowed}
	}
	return nil
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

// checkJSON refuses what Postgres would refuse as jsonb, so that the caller's transaction does not die of it.
func checkJSON(field string, value json.RawMessage, limit int) error {
	allowed := fmt.Sprintf("JSON of at most %d bytes that jsonb can hold", limit)
	switch {
	case len(value) == 0:
		return &InvalidError{field, "is empty", allowed}
	case len(value) > limit:
		return &InvalidError{field, fmt.Sprintf("has %d bytes", len(value)), allowed}
	case !utf8.Valid(value):
		return &InvalidError{field, "is not UTF-8", allowed}
	case !json.Valid(value):
		return &InvalidError{field, "is not JSON", allowed}
	}
	if problem := unstorable(value); problem != "" {
		return &InvalidError{field, problem, allowed}
	}
	return nil
}

// unstorable finds the escapes that are JSON but no jsonb: NUL and halves of surrogate pairs.
func unstorable(value []byte) string {
	for {
		at := bytes.IndexByte(value, '\\')
		if at < 0 {
			return ""
		}
		value = value[at:]
		if value[1] != 'u' {
			value = value[2:]
			continue
		}
		unit := hex4(value[2:])
		value = value[6:]
		switch {
		case unit == 0:
			return "has a NUL character"
		case unit >= 0xDC00 && unit < 0xE000:
			return "has a lone surrogate"
		case unit >= 0xD800 && unit < 0xDC00:
			if len(value) < 6 || value[0] != '\\' || value[1] != 'u' || hex4(value[2:])>>10 != 0xDC00>>10 {
				return "has a lone surrogate"
			}
			value = value[6:]
		}
	}
}

// hex4 reads four hexadecimal digits; valid JSON has them after every \u.
func hex4(digits []byte) uint64 {
	unit, _ := strconv.ParseUint(string(digits[:4]), 16, 16)
	return unit
}
