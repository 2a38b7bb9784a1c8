package identity_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identitytest"
)

var (
	caller = uuid.MustParse("0b0e7f5e-5b4c-4c57-9a53-0a1c3f1f2a01")
	target = uuid.MustParse("0b0e7f5e-5b4c-4c57-9a53-0a1c3f1f2a02")
	good   = identity.Request{AccessToken: "tok", UserID: target.String()}
	quiet  = slog.New(slog.DiscardHandler)
)

// script is a gateway on which everything succeeds.
func script() identitytest.Script { return identitytest.Script{User: caller, Role: "admin"} }

func answer(t *testing.T, config identity.Config, request identity.Request) identity.Answer {
	t.Helper()
	if config.Logger == nil {
		config.Logger = quiet
	}
	service, err := identity.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return service.RemoveAdmin(t.Context(), request)
}

// pgError looks as pgconn.PgError does, without the driver.
type pgError struct{ severity, state, message string }

func (e *pgError) SQLState() string { return e.state }
func (e *pgError) Error() string {
	return e.severity + ": " + e.message + " (SQLSTATE " + e.state + ")"
}

// pqError looks as lib/pq's Error does.
type pqError struct{ state, message string }

func (e *pqError) SQLState() string { return e.state }
func (e *pqError) Error() string    { return "pq: " + e.message }

func TestErrorOfARevokeIsRecognised(t *testing.T) {
	tests := []struct {
		name string
		err  error
		code string
	}{
		{"own SQLSTATE", &pgError{"ERROR", "ID001", "whatever"}, "LAST_ACTIVE_HUMAN_ADMIN"},
		{"own SQLSTATE of the guard", &pgError{"ERROR", "ID002", ""}, "LAST_ACTIVE_HUMAN_ADMIN"},
		{"own SQLSTATE, self", &pgError{"ERROR", "ID003", ""}, "SELF_REVOKE_FORBIDDEN"},
		{"own SQLSTATE, machine", &pgError{"ERROR", "ID004", ""}, "MACHINE_ACTOR_REVOKE_FORBIDDEN"},
		{"own SQLSTATE, not found", &pgError{"ERROR", "ID005", ""}, "ADMIN_NOT_FOUND"},
		{"own SQLSTATE, not active", &pgError{"ERROR", "ID006", ""}, "ADMIN_NOT_FOUND"},
		{"own SQLSTATE, forbidden", &pgError{"ERROR", "ID007", ""}, "ADMIN_REQUIRED"},
		{"own SQLSTATE in a wrap", fmt.Errorf("revoke: %w", &pgError{"ERROR", "ID007", ""}), "ADMIN_REQUIRED"},
		{"own SQLSTATE beside another error", errors.Join(errors.New("rollback"), &pgError{"ERROR", "ID007", ""}), "ADMIN_REQUIRED"},
		{"P0001, message equals", &pgError{"ERROR", "P0001", "target_not_found"}, "ADMIN_NOT_FOUND"},
		{"P0001, German server", &pgError{"FEHLER", "P0001", "last_admin_lockout"}, "LAST_ACTIVE_HUMAN_ADMIN"},
		{"P0001, lib/pq", &pqError{"P0001", "forbidden"}, "ADMIN_REQUIRED"},
		{"P0001, lib/pq from 1.11", &pqError{"P0001", "forbidden (P0001)"}, "ADMIN_REQUIRED"},
		{"other SQLSTATE, lib/pq", &pqError{"22023", "forbidden"}, "REVOKE_FAILED"},
		{"P0001, message begins with it", &pgError{"ERROR", "P0001", "forbidden: you"}, "REVOKE_FAILED"},
		{"P0001, message ends with it", &pgError{"ERROR", "P0001", "user id: last_admin_lockout"}, "REVOKE_FAILED"},
		{"P0001, message in capitals", &pgError{"ERROR", "P0001", "FORBIDDEN"}, "REVOKE_FAILED"},
		{"other SQLSTATE, message equals", &pgError{"ERROR", "22P02", "forbidden"}, "REVOKE_FAILED"},
		{"user input repeated by the server",
			&pgError{"ERROR", "22P02", `invalid input syntax for type uuid: "last_admin_lockout"`}, "REVOKE_FAILED"},
		{"server error inside a text with a token", fmt.Errorf("forbidden: %w", &pgError{"ERROR", "40001", "x"}), "REVOKE_FAILED"},
		{"typed", &identity.RevokeError{Token: identity.TokenForbidden}, "ADMIN_REQUIRED"},
		{"typed, in a wrap", fmt.Errorf("x: %w", &identity.RevokeError{Token: identity.TokenTargetNotActive}), "ADMIN_NOT_FOUND"},
		{"typed without a name, cause not searched", &identity.RevokeError{Err: errors.New("database forbidden")}, "REVOKE_FAILED"},
		{"typed with an unknown name", &identity.RevokeError{Token: "Forbidden"}, "REVOKE_FAILED"},
		{"opaque, other case", errors.New("Forbidden"), "REVOKE_FAILED"},
		{"opaque, in the table's order", errors.New("forbidden target_not_active last_admin_lockout"), "LAST_ACTIVE_HUMAN_ADMIN"},
		{"a code counts from a store only", &identity.StoreError{Code: "INVITATION_PENDING"}, "REVOKE_FAILED"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			gateway := script()
			gateway.RevokeErr = test.err
			got := answer(t, identity.Config{Gateway: gateway}, good)
			if got.Code != test.code || !errors.Is(got.Cause, test.err) {
				t.Errorf("code %q, cause %v: want %q and the error itself", got.Code, got.Cause, test.code)
			}
		})
	}
}

func TestStoreErrorBeatsToken(t *testing.T) {
	err := fmt.Errorf("forbidden: %w", &identity.StoreError{Code: "INVITATION_PENDING", Kind: identity.KindBadRequest})
	got := answer(t, identity.Config{Gateway: script(), Invitations: identitytest.ScriptStore{Err: err}}, good)
	want := identity.Answer{Status: 400, Code: "INVITATION_PENDING", Error: "INVITATION_PENDING", Cause: err}
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestStoreErrorWithoutCodeIsLikeAnyOther(t *testing.T) {
	for code, err := range map[string]error{
		"REVOKE_FAILED":  &identity.StoreError{Kind: identity.KindBadRequest},
		"ADMIN_REQUIRED": &identity.StoreError{Err: errors.New("forbidden")},
	} {
		if got := answer(t, identity.Config{Gateway: script(), Invitations: identitytest.ScriptStore{Err: err}}, good); got.Code != code {
			t.Errorf("%v: code %q, want %q", err, got.Code, code)
		}
	}
}

func TestUserIDsThatAreNoCanonicalUUID(t *testing.T) {
	id := target.String()
	for _, bad := range []string{"x", "last_admin_lockout", " " + id, id + " ", "{" + id + "}", "urn:uuid:" + id,
		strings.ReplaceAll(id, "-", ""), strings.Replace(id, "-", "_", 1), "'; DROP TABLE users; --             ", strings.Repeat("é", 18)} {
		gateway := script()
		gateway.RevokeErr = errors.New("the id went further than the checks")
		if got := answer(t, identity.Config{Gateway: gateway}, identity.Request{AccessToken: "tok", UserID: bad}); got.Code != "USER_ID_REQUIRED" {
			t.Errorf("user id %q: code %q, want USER_ID_REQUIRED", bad, got.Code)
		}
	}
}

func TestTypedNilStoreCountsAsNone(t *testing.T) {
	var store *identitytest.ScriptStore
	gateway := script()
	gateway.RevokeErr = &identity.RevokeError{Token: identity.TokenForbidden}
	if got := answer(t, identity.Config{Gateway: gateway, Invitations: store}, good); got.Code != "ADMIN_REQUIRED" {
		t.Errorf("code %q: want the gateway's answer, ADMIN_REQUIRED", got.Code)
	}
}

func TestOutageIsNoInvalidToken(t *testing.T) {
	down := errors.New("dial tcp 10.0.0.7:5432: connection refused")
	tests := map[string]identitytest.Script{
		"lookup error while resolving": {UserErr: fmt.Errorf("gateway: %w", &identity.LookupError{Err: down})},
		"error while reading the role": {User: caller, RoleErr: down},
	}
	for name, gateway := range tests {
		t.Run(name, func(t *testing.T) {
			got := answer(t, identity.Config{Gateway: gateway}, good)
			if got.Status != 500 || got.Code != "IDENTITY_ACTION_FAILED" || !errors.Is(got.Cause, down) {
				t.Errorf("answer %+v: want 500 IDENTITY_ACTION_FAILED with its cause", got)
			}
		})
	}
}

func TestAnyErrorUnderAContextThatIsOverIsAnOutage(t *testing.T) {
	service, err := identity.New(identity.Config{Gateway: identitytest.Script{UserErr: context.Canceled}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := service.RemoveAdmin(ctx, good); got.Code != "IDENTITY_ACTION_FAILED" {
		t.Errorf("code %q: want IDENTITY_ACTION_FAILED", got.Code)
	}
}

// panicky panics with value where at says.
type panicky struct {
	identitytest.Script
	at    string
	value any
}

func (p panicky) AdminRole(ctx context.Context, user uuid.UUID) (string, error) {
	if p.at == "role" {
		panic(p.value)
	}
	return p.Script.AdminRole(ctx, user)
}

func (p panicky) RevokeAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error {
	if p.at == "revoke" {
		panic(p.value)
	}
	return p.Script.RevokeAdmin(ctx, actor, target, reason)
}

func TestPanicAnswersFixedText(t *testing.T) {
	secret := errors.New("postgres://app:hunter2@db.internal/prod")
	broken := identity.English()
	broken.LastAdmin = "x"
	broken.RevokeFailed = func(string) string { panic(secret) }
	failing := script()
	failing.RevokeErr = errors.New("reset")
	tests := map[string]identity.Config{
		"gateway, lookup": {Gateway: panicky{script(), "role", secret}},
		"gateway, revoke": {Gateway: panicky{script(), "revoke", secret}},
		"message hook":    {Gateway: failing, Messages: broken},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			got := answer(t, config, good)
			var caught *identity.PanicError
			if !errors.As(got.Cause, &caught) || !errors.Is(got.Cause, secret) || len(caught.Stack) == 0 {
				t.Errorf("cause %v: want a PanicError with value and stack", got.Cause)
			}
			want := identity.Answer{Status: 500, Code: "IDENTITY_ACTION_FAILED", Error: identity.English().ActionFailed}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(identity.Answer{}, "Cause", "Reference")); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if got.Reference == "" || !strings.Contains(log.String(), got.Reference) || !strings.Contains(log.String(), "db.internal") {
				t.Errorf("log %s: want the reference %q and the cause", log.String(), got.Reference)
			}
		})
	}
}

// TestFailureKeepsItsCauseInTheLog is case I10: what the client gets names neither host nor user nor database.
func TestFailureKeepsItsCauseInTheLog(t *testing.T) {
	for name, messages := range map[string]identity.Messages{"English": identity.English(), "German": identity.German()} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			gateway := script()
			gateway.RevokeErr = errors.New("failed to connect to `user=app database=prod`: db.internal:5432")
			got := answer(t, identity.Config{Gateway: gateway, Messages: messages, Logger: slog.New(slog.NewJSONHandler(&log, nil))}, good)
			if got.Status != 500 || got.Code != "REVOKE_FAILED" || got.Error != messages.RevokeFailed("") {
				t.Errorf("answer %+v: want 500 REVOKE_FAILED with the fixed text", got)
			}
			for _, part := range []string{got.Reference, "user=app", "database=prod", "db.internal"} {
				if part == "" || !strings.Contains(log.String(), part) {
					t.Errorf("log lacks %q: %s", part, log.String())
				}
			}
			if strings.Contains(log.String(), good.AccessToken+`"`) {
				t.Errorf("log holds the access token: %s", log.String())
			}
		})
	}
}

func TestReferencesDiffer(t *testing.T) {
	gateway := script()
	gateway.RevokeErr = errors.New("reset")
	config := identity.Config{Gateway: gateway}
	if a, b := answer(t, config, good), answer(t, config, good); a.Reference == b.Reference {
		t.Errorf("two failures share the reference %q", a.Reference)
	}
}

// recorder keeps what it is told of.
type recorder struct {
	identitytest.Script
	seen *[]string
	err  error
}

func (r recorder) RecordRefusal(_ context.Context, actor, target uuid.UUID, reason, code string) error {
	*r.seen = append(*r.seen, fmt.Sprintf("%s %s %s %s", actor, target, reason, code))
	return r.err
}

// TestRefusalsBeforeTheRevokeAreRecorded is the part of case I12 that no database function can see.
func TestRefusalsBeforeTheRevokeAreRecorded(t *testing.T) {
	viewer := script()
	viewer.Role = "viewer"
	tests := []struct {
		name    string
		gateway identitytest.Script
		request identity.Request
		want    []string
	}{
		{"no token", script(), identity.Request{UserID: target.String()}, nil},
		{"bad token", identitytest.Script{}, good, nil},
		{"no admin", viewer, identity.Request{AccessToken: "t", UserID: target.String(), Reason: "spite"},
			[]string{caller.String() + " " + target.String() + " spite REMOVE_FORBIDDEN"}},
		{"bad id", script(), identity.Request{AccessToken: "t", UserID: "x"},
			[]string{caller.String() + " " + uuid.Nil.String() + "  USER_ID_REQUIRED"}},
		{"own id", script(), identity.Request{AccessToken: "t", UserID: caller.String()},
			[]string{caller.String() + " " + caller.String() + "  SELF_REVOKE_FORBIDDEN"}},
		{"success", script(), good, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var seen []string
			answer(t, identity.Config{Gateway: recorder{test.gateway, &seen, nil}}, test.request)
			if diff := cmp.Diff(test.want, seen); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusalThatCannotBeRecordedIsAFailure(t *testing.T) {
	down := errors.New("down")
	got := answer(t, identity.Config{Gateway: recorder{script(), new([]string), down}}, identity.Request{AccessToken: "t"})
	if got.Code != "IDENTITY_ACTION_FAILED" || !errors.Is(got.Cause, down) {
		t.Errorf("answer %+v: want IDENTITY_ACTION_FAILED because of %v", got, down)
	}
}
