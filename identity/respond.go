package identity

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json" // RFC 9457
)

// body is the wire form of an answer.
type body struct {
	Revoked   bool   `json:"revoked,omitempty"`
	Code      string `json:"code,omitempty"`
	Error     string `json:"error,omitempty"`
	Reference string `json:"reference,omitempty"`
}

// problem is the wire form of a failure for clients that ask for RFC 9457; code and reference are extension members.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	Reference string `json:"reference,omitempty"`
}

// Respond writes the answer: {"revoked":true} or {"code":...,"error":...}, with "reference" beside them on a 500. A
// request whose Accept names application/problem+json, and application/json no higher, gets a failure as RFC 9457 has it,
// with code and reference as members. A 401 carries WWW-Authenticate by RFC 6750.
func (a Answer) Respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if a.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", a.challenge())
	}
	if !a.Revoked && prefersProblem(r.Header) {
		write(w, a.Status, problemType, problem{Type: "about:blank", Title: http.StatusText(a.Status),
			Status: a.Status, Detail: a.Error, Code: a.Code, Reference: a.Reference})
		return
	}
	write(w, a.Status, jsonType, body{Revoked: a.Revoked, Code: a.Code, Error: a.Error, Reference: a.Reference})
}

// RespondJSON writes the success of an application's other handlers with the same headers. value must be of a type that
// encoding/json can marshal.
func RespondJSON(w http.ResponseWriter, status int, value any) { write(w, status, jsonType, value) }

func write(w http.ResponseWriter, status int, contentType string, value any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The status is out: an error here can only be a client that left.
	_ = json.NewEncoder(w).Encode(value)
}

// challenge names an error only when there was a token: RFC 6750, section 3.1.
func (a Answer) challenge() string {
	if a.Code == "INVALID_TOKEN" {
		return `Bearer error="invalid_token"`
	}
	return "Bearer"
}

// prefersProblem needs problem+json by name: */* keeps the short form.
func prefersProblem(header http.Header) bool {
	var wanted, plain float64
	for _, part := range strings.Split(strings.Join(header.Values("Accept"), ","), ",") {
		media, parameters, err := mime.ParseMediaType(part)
		switch {
		case err != nil:
		case media == problemType:
			wanted = quality(parameters["q"])
		case media == jsonType:
			plain = quality(parameters["q"])
		}
	}
	return wanted > 0 && wanted >= plain
}

func quality(q string) float64 {
	if q == "" {
		return 1
	}
	value, err := strconv.ParseFloat(q, 64)
	if err != nil {
		return 0
	}
	return value
}
