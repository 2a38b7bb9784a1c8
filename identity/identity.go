// Package identity answers the request to remove an admin, in one fixed order of checks and with one fixed set of codes,
// over whatever directory of users and admins an application has.
//
// [New] takes that directory as a [Gateway]. [Service.RemoveAdmin] answers a [Request], and the Service is an
// [http.Handler] for the same. Package pgidentity beside this one is a Gateway in Postgres whose guard against removing
// the last active human admin holds at every isolation level; this package itself needs no database driver.
//
// The order, first failure answers: access token present (401 UNAUTHORIZED), token resolves (401 INVALID_TOKEN), caller
// has the role "admin" (403 REMOVE_FORBIDDEN), user id present and well formed (400 USER_ID_REQUIRED), user id not the
// caller's own (403 SELF_REVOKE_FORBIDDEN). Then the [InvitationStore], if there is one, removes, else the Gateway
// revokes, and their errors are answered by token, see [RevokeError]. What cannot be decided is 500
// IDENTITY_ACTION_FAILED.
package identity

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/identity"
)

// Request asks for the removal of one admin.
type Request struct {
	AccessToken string // the caller's, without "Bearer"
	UserID      string // of the admin to remove: a uuid in the canonical 36 characters, either case
	Reason      string // for the audit, may be empty
}

// Answer is what the caller is told, and in Cause what only this process may know.
type Answer struct {
	Status    int    // an HTTP status
	Revoked   bool   // true with 200 only
	Code      string // for programs: empty with 200
	Error     string // for people, from [Messages]: empty with 200
	Reference string // with 500 only: the same random text is in the log beside the cause
	Cause     error  // what the gateway or store failed with, nil if it was not asked; never sent to the client
}

// Gateway is an application's directory of users and admins. Every method must be safe for concurrent use.
type Gateway interface {
	// ResolveToken answers the user that the access token belongs to. [uuid.Nil] or any error means that the token is no
	// good (401), but a [LookupError], and any error once ctx is over, means that nobody could look (500).
	ResolveToken(ctx context.Context, accessToken string) (uuid.UUID, error)
	// AdminRole answers the user's role, "" for none. Only exactly "admin" may remove admins; an error is 500.
	AdminRole(ctx context.Context, user uuid.UUID) (string, error)
	// RevokeAdmin ends the admin rights of target. It must decide by itself, at the time of its effect, whether actor may
	// and whether an active human admin remains: what AdminRole answered may be out of date by then. reason may be empty.
	RevokeAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error
}

// InvitationStore removes in place of the gateway, where an application keeps invited people beside admins.
type InvitationStore interface {
	// RemoveAdmin is bound as [Gateway].RevokeAdmin is. A [StoreError] answers with a code of the store's own.
	RemoveAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error
}

// RefusalRecorder is implemented by a [Gateway] that keeps an audit: it hears of each refusal that is decided before the
// revoke is called, once its caller is known. target is [uuid.Nil] when the request names none. If it fails, the answer is
// 500: no refusal goes out unrecorded.
type RefusalRecorder interface {
	RecordRefusal(ctx context.Context, actor, target uuid.UUID, reason, code string) error
}

// Service answers requests for one [Gateway]. It is safe for concurrent use.
type Service struct{ inner identity.Service }

// RemoveAdmin answers the request. It never panics because of a gateway, store or message hook that does: that is a 500
// whose Cause is a [PanicError].
func (s *Service) RemoveAdmin(ctx context.Context, request Request) Answer {
	return public(s.inner.RemoveAdmin(ctx, identity.Request(request)))
}

// Authenticate is for an application's other handlers: it finds the user of a request by its bearer token. If ok is
// false, answer is the 401 or 500 to send.
func (s *Service) Authenticate(ctx context.Context, header http.Header) (user uuid.UUID, answer Answer, ok bool) {
	token, _ := BearerToken(header)
	user, refused := s.inner.Authenticate(ctx, token)
	return user, public(refused), refused.Status == 0
}

// Failure is for an application's other handlers: the answer to an error of a gateway or store, by the same tables that
// RemoveAdmin answers by. err must not be nil.
func (s *Service) Failure(ctx context.Context, err error) Answer {
	return public(s.inner.Explain(ctx, err))
}

// public gives an answer, and a caught panic in it, the types that callers can name.
func public(a identity.Answer) Answer {
	if caught, ok := a.Cause.(*identity.PanicError); ok {
		a.Cause = (*PanicError)(caught)
	}
	return Answer(a)
}
