package shop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
)

// FieldError says which field of an input is wrong, by its JSON name, and what it must be.
type FieldError struct {
	Field   string // empty if the input as a whole is at fault
	Problem string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + " " + e.Problem
}

// decode is stricter than json.Unmarshal: a misspelt field or a second value is an error, not a surprise.
func decode[T any](text []byte) (value T, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		return value, describe(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return value, &FieldError{"", "must be one JSON object and nothing after it"}
	}
	return value, nil
}

func describe(err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return &FieldError{"", "must be a JSON object"}
	case errors.As(err, &wrongType):
		return &FieldError{wrongType.Field, fmt.Sprintf("must be of type %s", wrongType.Type)}
	case errors.As(err, &syntax):
		return &FieldError{"", fmt.Sprintf("is not JSON at byte %d: %v", syntax.Offset, syntax)}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &FieldError{"", "is missing or cut short"}
	}
	// encoding/json has no type for this one.
	if name, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return &FieldError{strings.Trim(name, `"`), "is unknown"}
	}
	return &FieldError{"", err.Error()}
}

// within names a field from one level further out.
func within(outer string, err error) error {
	var inner *FieldError
	if !errors.As(err, &inner) {
		return err
	}
	return &FieldError{strings.TrimSuffix(outer+"."+inner.Field, "."), inner.Problem}
}

func filled(field, text string) error {
	if strings.TrimSpace(text) == "" {
		return &FieldError{field, "must not be blank"}
	}
	return nil
}

func amount(field string, n int64) error {
	if n < 1 || n > 1_000_000_00 {
		return &FieldError{field, "must be 1 to 100000000"}
	}
	return nil
}

func isID(field, text string) error {
	_, err := parseID(field, text)
	return err
}

func parseID(field, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return uuid.Nil, &FieldError{field, "must be a UUID of 36 characters"}
	}
	return id, nil
}
