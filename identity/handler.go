package identity

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// maxBodyBytes bounds the body of a request: two short texts, with room.
const maxBodyBytes = 8 << 10

// ServeHTTP answers POST with a JSON body {"userId": "...", "reason": "..."}, reason optional, of at most 8 KiB, and the
// access token as bearer token. A body that is no such object counts as one without a user id, so that a caller without
// rights learns nothing about it; a larger one is 413 BODY_TOO_LARGE, another method 405 METHOD_NOT_ALLOWED. Slow bodies
// are bounded by the ReadTimeout of the [http.Server].
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		Answer{Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Error: "Use POST."}.Respond(w, r)
		return
	}
	request, err := readRequest(w, r)
	if err != nil {
		Answer{Status: http.StatusRequestEntityTooLarge, Code: "BODY_TOO_LARGE",
			Error: "The body may have 8 KiB at most."}.Respond(w, r)
		return
	}
	s.RemoveAdmin(r.Context(), request).Respond(w, r)
}

// readRequest fails only for a body that is too large. Without a token nothing is read: the answer is 401 whatever it holds.
func readRequest(w http.ResponseWriter, r *http.Request) (Request, error) {
	token, ok := BearerToken(r.Header)
	if !ok || r.Body == nil {
		return Request{AccessToken: token}, nil
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return Request{}, err
	}
	var in struct {
		UserID string `json:"userId"`
		Reason string `json:"reason"`
	}
	if err != nil || json.Unmarshal(raw, &in) != nil {
		return Request{AccessToken: token}, nil
	}
	return Request{AccessToken: token, UserID: in.UserID, Reason: in.Reason}, nil
}
