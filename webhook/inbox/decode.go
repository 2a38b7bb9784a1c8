package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/openlup/pgrail/webhook"
)

// Decode reads the body of a delivery as JSON, for Draft to return its error as it is: a [*RefusedError] with status 400
// for a body that is no JSON and 422 for JSON that does not fit T. The reason names the place and quotes nothing.
func Decode[T any](d webhook.Delivery) (T, error) {
	var value T
	err := json.Unmarshal(d.Body, &value)
	if err == nil {
		return value, nil
	}
	refused := &RefusedError{Status: http.StatusUnprocessableEntity, Reason: describeJSON(err)}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		refused.Status = http.StatusBadRequest
	case refused.Reason == "":
		// A decoder of T's own, whose text may quote what it could not read.
		refused.Reason = fmt.Sprintf("JSON refused by its decoder (%T)", err)
	}
	return *new(T), refused
}

// describeJSON keeps the kind and the place of a decoding error, or is empty for any other error.
func describeJSON(err error) string {
	var mismatch *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &mismatch):
		kind, _, _ := strings.Cut(mismatch.Value, " ") // encoding/json appends the literal: "number 1e400"
		return fmt.Sprintf("JSON field %q cannot hold a %s", mismatch.Field, kind)
	case errors.As(err, &syntax):
		return fmt.Sprintf("malformed JSON at offset %d", syntax.Offset)
	}
	return ""
}
