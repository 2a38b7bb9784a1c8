package shop

import (
	"errors"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
)

// maxBody bounds what the API reads of a request, in bytes.
const maxBody = 8 << 10

// Secrets are shared with those who send webhooks.
type Secrets struct{ GitHub, Payments string }

// API answers over HTTP. All bodies are JSON, and every failure has the shape of package identity's answers.
func (s *Shop) API(secrets Secrets) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /signin", s.handleSignIn)
	mux.HandleFunc("GET /admins", s.signedIn(s.handleList))
	mux.HandleFunc("POST /admins/invite", s.signedIn(s.handleInvite))
	mux.HandleFunc("POST /admins/accept", s.handleAccept)
	mux.Handle("POST /admins/remove", s.admins)
	return mux, s.addHooks(mux, secrets)
}

// signedIn lets those pass who bring a good access token.
func (s *Shop) signedIn(next func(w http.ResponseWriter, r *http.Request, user uuid.UUID)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, answer, ok := s.admins.Authenticate(r.Context(), r.Header)
		if !ok {
			answer.Respond(w, r)
			return
		}
		next(w, r, user)
	}
}

func (s *Shop) handleSignIn(w http.ResponseWriter, r *http.Request) {
	in, err := read[struct{ Email, Password string }](w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	token, err := s.signIn(r.Context(), in.Email, in.Password)
	s.respond(w, r, http.StatusOK, map[string]string{"token": token}, err)
}

func (s *Shop) handleList(w http.ResponseWriter, r *http.Request, _ uuid.UUID) {
	admins, err := s.people.ListAdmins(r.Context())
	list := []map[string]any{}
	for _, a := range admins {
		list = append(list, map[string]any{"id": a.ID, "name": a.Name, "since": a.GrantedAt, "by": a.Path})
	}
	s.respond(w, r, http.StatusOK, list, err)
}

// handleInvite leaves it to the database whether the caller may: only it knows at the time of the effect.
func (s *Shop) handleInvite(w http.ResponseWriter, r *http.Request, user uuid.UUID) {
	in, err := read[struct{ Email string }](w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	secret, err := s.invite(r.Context(), user, in.Email)
	s.respond(w, r, http.StatusCreated, map[string]string{"secret": secret}, err)
}

func (s *Shop) handleAccept(w http.ResponseWriter, r *http.Request) {
	in, err := read[struct{ Secret string }](w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	id, err := s.people.AcceptInvitation(r.Context(), in.Secret)
	s.respond(w, r, http.StatusOK, map[string]any{"id": id}, err)
}

func read[T any](w http.ResponseWriter, r *http.Request) (value T, err error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return value, &FieldError{"", "must be a JSON object of at most 8 KiB"}
	}
	return decode[T](text)
}

func (s *Shop) respond(w http.ResponseWriter, r *http.Request, status int, value any, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	identity.RespondJSON(w, status, value)
}

// fail is the one place where an error becomes an answer. What it does not know, package identity answers.
func (s *Shop) fail(w http.ResponseWriter, r *http.Request, err error) {
	var wrong *FieldError
	switch {
	case errors.As(err, &wrong):
		identity.Answer{Status: http.StatusBadRequest, Code: "BAD_REQUEST", Error: wrong.Error()}.Respond(w, r)
	case errors.Is(err, errNoEntry):
		identity.Answer{Status: http.StatusUnauthorized, Code: "SIGN_IN_FAILED", Error: "Wrong address or password."}.Respond(w, r)
	default:
		s.admins.Failure(r.Context(), err).Respond(w, r)
	}
}
