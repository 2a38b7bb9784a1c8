package identity

import (
	"context"
	"errors"

	"github.com/google/uuid"
)

// adminRole is the one role that may remove admins, compared exactly: "Admin" is another role.
const adminRole = "admin"

// attempt is one request on its way down the checks.
type attempt struct {
	ctx     context.Context
	gateway Gateway
	request Request
	user    uuid.UUID // the caller, once its token is resolved
	target  uuid.UUID // uuid.Nil when the request names none
	named   bool      // the request names a target by a well-formed id
}

func newAttempt(ctx context.Context, gateway Gateway, request Request) *attempt {
	target, ok := parseID(request.UserID)
	return &attempt{ctx: ctx, gateway: gateway, request: request, target: target, named: ok}
}

// parseID takes the canonical form only, in either case. uuid.Parse alone would also take URNs, 32 bare digits and any
// two characters in the place of braces.
func parseID(text string) (uuid.UUID, bool) {
	const canonical = len("00000000-0000-0000-0000-000000000000")
	if len(text) != canonical {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

func noAccessToken(t *attempt) (bool, error) { return t.request.AccessToken == "", nil }

func unresolvedToken(t *attempt) (bool, error) {
	user, err := t.gateway.ResolveToken(t.ctx, t.request.AccessToken)
	switch {
	case lookupFailed(t.ctx, err):
		return false, err
	case err != nil || user == uuid.Nil:
		return true, err
	}
	t.user = user
	return false, nil
}

// lookupFailed tells an outage from a bad token. Answering 401 to an outage would make every client throw away a token
// that is still good.
func lookupFailed(ctx context.Context, err error) bool {
	var outage interface{ LookupFailed() bool }
	return err != nil && (ctx.Err() != nil || errors.As(err, &outage) && outage.LookupFailed())
}

func callerIsNoAdmin(t *attempt) (bool, error) {
	role, err := t.gateway.AdminRole(t.ctx, t.user)
	return err == nil && role != adminRole, err
}

func noUserID(t *attempt) (bool, error) { return !t.named, nil }

// ownUserID compares parsed values, so that no spelling of the caller's id gets past it.
func ownUserID(t *attempt) (bool, error) { return t.target == t.user, nil }
