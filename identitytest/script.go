package identitytest

import (
	"context"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
)

// Script is a [identity.Gateway] that answers what its fields say, for tests of handlers.
type Script struct {
	User      uuid.UUID // what every token resolves to
	UserErr   error
	Role      string // of every user
	RoleErr   error
	RevokeErr error // nil: every revoke succeeds
}

var _ identity.Gateway = Script{}

// ResolveToken answers User and UserErr.
func (s Script) ResolveToken(context.Context, string) (uuid.UUID, error) { return s.User, s.UserErr }

// AdminRole answers Role and RoleErr.
func (s Script) AdminRole(context.Context, uuid.UUID) (string, error) { return s.Role, s.RoleErr }

// RevokeAdmin answers RevokeErr.
func (s Script) RevokeAdmin(_ context.Context, _, _ uuid.UUID, _ string) error { return s.RevokeErr }

// ScriptStore is an [identity.InvitationStore] that answers Err.
type ScriptStore struct{ Err error }

var _ identity.InvitationStore = ScriptStore{}

// RemoveAdmin answers Err.
func (s ScriptStore) RemoveAdmin(_ context.Context, _, _ uuid.UUID, _ string) error { return s.Err }
