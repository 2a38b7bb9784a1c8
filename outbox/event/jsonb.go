package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkJSON refuses what Postgres would refuse as jsonb, so that the caller's transaction does not die of it.
func checkJSON(field string, value json.RawMessage, limit int) error {
	var problem string
	switch {
	case len(value) == 0:
		problem = "is empty"
	case len(value) > limit:
		problem = fmt.Sprintf("has %d bytes", len(value))
	case !utf8.Valid(value):
		problem = "is not UTF-8"
	case !json.Valid(value):
		problem = "is not JSON"
	default:
		problem = unstorable(value)
	}
	if problem == "" {
		return nil
	}
	return &InvalidError{field, problem, fmt.Sprintf("JSON of at most %d bytes that jsonb can hold", limit)}
}

// unstorable says what a valid JSON text has that jsonb cannot hold, or nothing.
func unstorable(value []byte) (problem string) {
	for len(value) > 0 && problem == "" {
		switch c := value[0]; {
		case c == '"':
			value, problem = skipString(value[1:])
		case c == '-' || c >= '0' && c <= '9':
			value, problem = skipNumber(value)
		default:
			value = value[1:]
		}
	}
	return problem
}

// skipString returns what follows a string, and finds escapes that are JSON but no jsonb: NUL and halves of surrogate pairs.
func skipString(value []byte) (rest []byte, problem string) {
	for {
		value = value[bytes.IndexAny(value, `"\\`):]
		switch {
		case value[0] == '"':
			return value[1:], ""
		case value[1] != 'u':
			value = value[2:]
			continue
		}
		unit := hex4(value[2:])
		value = value[6:]
		switch {
		case unit == 0:
			return nil, "has a NUL character"
		case unit >= 0xDC00 && unit < 0xE000:
			return nil, "has a lone surrogate"
		case unit >= 0xD800 && unit < 0xDC00:
			if value[0] != '\\' || value[1] != 'u' || hex4(value[2:])>>10 != 0xDC00>>10 {
				return nil, "has a lone surrogate"
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

// How many digits numeric holds before and after the point.
const (
	maxWhole    = 131072
	maxFraction = 16383
)

// skipNumber returns what follows a number, and finds those that numeric cannot hold. Zeros count as digits here,
// so a few far-fetched spellings of numbers that would fit are refused, 0e200000 for one.
func skipNumber(value []byte) (rest []byte, problem string) {
	end := 0
	for end < len(value) && bytes.IndexByte([]byte("+-.0123456789Ee"), value[end]) >= 0 {
		end++
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(value[:end])), "e")
	whole, fraction, _ := strings.Cut(strings.TrimLeft(mantissa, "-0"), ".")
	// No exponent reads as 0, and one beyond the range of int as the end of that range.
	shift, _ := strconv.ParseInt(exponent, 10, 32)
	if int64(len(whole))+shift > maxWhole || int64(len(fraction))-shift > maxFraction {
		return nil, "has a number beyond the range of numeric"
	}
	return value[end:], ""
}
