package identity_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identitytest"
)

// serve answers one request over a real connection.
func serve(t *testing.T, gateway identity.Gateway, method, body string, header http.Header) (*http.Response, map[string]any) {
	t.Helper()
	service, err := identity.New(identity.Config{Gateway: gateway, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service)
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var decoded map[string]any
	if err := json.NewDecoder(response.Body).Decode(&decoded); err != nil {
		t.Fatalf("body: %v", err)
	}
	return response, decoded
}

func bearer(fields ...string) http.Header { return http.Header{"Authorization": fields} }

func goodBody() string { return `{"userId":"` + target.String() + `","reason":"left the company"}` }

func TestHandlerAnswersInJSON(t *testing.T) {
	response, body := serve(t, script(), http.MethodPost, goodBody(), bearer("Bearer tok"))
	if diff := cmp.Diff(map[string]any{"revoked": true}, body); diff != "" || response.StatusCode != 200 {
		t.Errorf("status %d, body (-want +got):\n%s", response.StatusCode, diff)
	}
	want := [2]string{"no-store", "application/json"}
	if got := [2]string{response.Header.Get("Cache-Control"), response.Header.Get("Content-Type")}; got != want {
		t.Errorf("Cache-Control, Content-Type %q: want %q", got, want)
	}
}

// asked remembers the target and the reason of a revoke.
type asked struct {
	identitytest.Script
	target *uuid.UUID
	reason *string
}

func (a asked) RevokeAdmin(_ context.Context, _, target uuid.UUID, reason string) error {
	*a.target, *a.reason = target, reason
	return nil
}

func TestHandlerHandsTargetAndReasonOn(t *testing.T) {
	gateway := asked{script(), new(uuid.UUID), new(string)}
	serve(t, gateway, http.MethodPost, goodBody(), bearer("Bearer tok"))
	if *gateway.target != target || *gateway.reason != "left the company" {
		t.Errorf("revoke of %s because of %q: want %s, left the company", gateway.target, *gateway.reason, target)
	}
}

// TestBearer is case I11.
func TestBearer(t *testing.T) {
	tests := []struct {
		name   string
		header http.Header
		token  string
	}{
		{"lower case", bearer("bearer t"), "t"},
		{"upper case, two spaces", bearer("BEARER  t"), "t"},
		{"all of token68", bearer("Bearer aZ9-._~+/=="), "aZ9-._~+/=="},
		{"8 KiB", bearer("Bearer " + strings.Repeat("t", 8<<10)), strings.Repeat("t", 8<<10)},
		{"8 KiB and 1", bearer("Bearer " + strings.Repeat("t", 8<<10+1)), ""},
		{"no header", nil, ""},
		{"scheme only", bearer("Bearer"), ""},
		{"scheme and space", bearer("Bearer "), ""},
		{"other scheme", bearer("Basic t"), ""},
		{"longer scheme", bearer("Bearers t"), ""},
		{"tab", bearer("Bearer\tt"), ""},
		{"two words", bearer("Bearer t u"), ""},
		{"comma", bearer("Bearer t, Bearer u"), ""},
		{"padding only", bearer("Bearer =="), ""},
		{"padding inside", bearer("Bearer a=b"), ""},
		{"not ASCII", bearer("Bearer tök"), ""},
		{"two headers", bearer("Bearer t", "Bearer t"), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			token, ok := identity.BearerToken(test.header)
			if token != test.token || ok != (test.token != "") {
				t.Errorf("BearerToken = %q, %t: want %q", token, ok, test.token)
			}
		})
	}
}

func TestUnauthorizedNamesTheScheme(t *testing.T) {
	tests := map[string]struct {
		gateway identity.Gateway
		header  http.Header
		want    string
	}{
		"no token":    {script(), bearer("Basic dTpw"), "Bearer"},
		"two headers": {script(), bearer("Bearer t", "Bearer t"), "Bearer"},
		"bad token":   {identitytest.Script{}, bearer("Bearer t"), `Bearer error="invalid_token"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response, _ := serve(t, test.gateway, http.MethodPost, goodBody(), test.header)
			if got := response.Header.Get("WWW-Authenticate"); response.StatusCode != 401 || got != test.want {
				t.Errorf("status %d, WWW-Authenticate %q: want 401, %q", response.StatusCode, got, test.want)
			}
		})
	}
}

func TestHandlerRefusesWhatItCannotRead(t *testing.T) {
	tests := []struct {
		name, method, body string
		gateway            identity.Gateway
		status             int
		code               string
	}{
		{"other method", http.MethodPut, goodBody(), script(), 405, "METHOD_NOT_ALLOWED"},
		{"empty", http.MethodPost, "", script(), 400, "USER_ID_REQUIRED"},
		{"no JSON", http.MethodPost, "userId=1", script(), 400, "USER_ID_REQUIRED"},
		{"array", http.MethodPost, "[]", script(), 400, "USER_ID_REQUIRED"},
		{"number for id", http.MethodPost, `{"userId":1}`, script(), 400, "USER_ID_REQUIRED"},
		{"two objects", http.MethodPost, goodBody() + goodBody(), script(), 400, "USER_ID_REQUIRED"},
		{"no JSON and no rights", http.MethodPost, "[", identitytest.Script{User: caller}, 403, "REMOVE_FORBIDDEN"},
		{"8 KiB", http.MethodPost, goodBody() + strings.Repeat(" ", 8<<10-len(goodBody())), script(), 200, ""},
		{"8 KiB and 1", http.MethodPost, goodBody() + strings.Repeat(" ", 8<<10+1-len(goodBody())), script(), 413, "BODY_TOO_LARGE"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			response, body := serve(t, test.gateway, test.method, test.body, bearer("Bearer tok"))
			if code, _ := body["code"].(string); response.StatusCode != test.status || code != test.code {
				t.Errorf("%d %s: want %d %s", response.StatusCode, code, test.status, test.code)
			}
		})
	}
}

// unread fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("body was read although there is no token")
	return 0, io.EOF
}

func TestBodyOfAStrangerIsNotRead(t *testing.T) {
	service, err := identity.New(identity.Config{Gateway: script(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	service.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", unread{t}))
	if recorder.Code != 401 {
		t.Errorf("status %d: want 401", recorder.Code)
	}
}

func TestRequestWithoutABody(t *testing.T) {
	service, err := identity.New(identity.Config{Gateway: script(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	service.ServeHTTP(recorder, &http.Request{Method: http.MethodPost, Header: bearer("Bearer t")})
	if recorder.Code != 400 {
		t.Errorf("status %d: want 400", recorder.Code)
	}
}

func TestProblemDetailsByAccept(t *testing.T) {
	const problem, plain = "application/problem+json", "application/json"
	tests := []struct{ accept, want string }{
		{"", plain}, {"*/*", plain}, {plain, plain}, {problem, problem}, {"Application/Problem+JSON", problem},
		{plain + ", " + problem, problem}, {plain + ";q=0.5, " + problem + ";q=0.9", problem},
		{plain + ", " + problem + ";q=0.9", plain}, {problem + ";q=0", plain}, {problem + ";q=x", plain}, {"text/html, " + problem, problem},
		{";;," + problem, problem},
	}
	for _, test := range tests {
		t.Run(test.accept, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			request := httptest.NewRequest(http.MethodPost, "/", nil)
			request.Header.Set("Accept", test.accept)
			identity.Answer{Status: 409, Code: "C", Error: "E"}.Respond(recorder, request)
			if got := recorder.Header().Get("Content-Type"); got != test.want {
				t.Errorf("Content-Type %q: want %q", got, test.want)
			}
		})
	}
}

func TestProblemDetailsHoldCodeAndReference(t *testing.T) {
	gateway := script()
	gateway.RevokeErr = errors.New("host=db.internal")
	header := bearer("Bearer tok")
	header.Set("Accept", "application/problem+json")
	_, body := serve(t, gateway, http.MethodPost, goodBody(), header)
	if reference, _ := body["reference"].(string); reference == "" {
		t.Errorf("body %v: want a reference", body)
	}
	delete(body, "reference")
	want := map[string]any{"type": "about:blank", "title": "Internal Server Error", "status": 500.0,
		"detail": identity.English().RevokeFailed(""), "code": "REVOKE_FAILED"}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestSuccessIsPlainWhateverIsAccepted(t *testing.T) {
	header := bearer("Bearer tok")
	header.Set("Accept", "application/problem+json")
	response, body := serve(t, script(), http.MethodPost, goodBody(), header)
	if diff := cmp.Diff(map[string]any{"revoked": true}, body); diff != "" || response.Header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type %q, body (-want +got):\n%s", response.Header.Get("Content-Type"), diff)
	}
}

// TestOtherHandlersShareTheShape: what an application needs to answer its own requests in the same way.
func TestOtherHandlersShareTheShape(t *testing.T) {
	gateway := new(identitytest.Memory)
	admin := gateway.Add(identitytest.HumanAdmin)
	service, err := identity.New(identity.Config{Gateway: gateway, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	user, _, ok := service.Authenticate(t.Context(), bearer("Bearer "+admin.Token))
	if !ok || user != admin.ID {
		t.Errorf("Authenticate = %s, %t: want %s", user, ok, admin.ID)
	}
	if _, refused, ok := service.Authenticate(t.Context(), bearer("Bearer x")); ok || refused.Code != "INVALID_TOKEN" {
		t.Errorf("Authenticate = %+v, %t: want INVALID_TOKEN", refused, ok)
	}
	got := service.Failure(t.Context(), &identity.StoreError{Code: "ALREADY_ADMIN"})
	if got.Status != 409 || got.Code != "ALREADY_ADMIN" {
		t.Errorf("Failure = %+v: want 409 ALREADY_ADMIN", got)
	}
	recorder := httptest.NewRecorder()
	identity.RespondJSON(recorder, http.StatusCreated, map[string]string{"id": "1"})
	if recorder.Code != 201 || recorder.Body.String() != "{\"id\":\"1\"}\n" || recorder.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %q %v: want 201, the value, no-store", recorder.Code, recorder.Body, recorder.Header())
	}
}
