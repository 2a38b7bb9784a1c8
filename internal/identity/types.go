// Package identity holds the mechanism of the public package of the same name: the decision table, the walk down it and
// the recognition of a revoke's errors. Its types are documented there; here they are kept field by field alike.
package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Request is what a caller asks for.
type Request struct {
	AccessToken string
	UserID      string
	Reason      string
}

// Answer is what a caller is told. Cause never leaves the process.
type Answer struct {
	Status    int
	Revoked   bool
	Code      string
	Error     string
	Reference string
	Cause     error
}

// Messages are the texts of the answers.
type Messages struct {
	Unauthorized        string
	InvalidToken        string
	RemoveForbidden     string
	UserIDRequired      string
	SelfRemoveForbidden string
	LastAdmin           string
	SelfRevoke          string
	MachineRevoke       string
	AdminNotFound       string
	AdminRequired       string
	RevokeFailed        func(text string) string
	ActionFailed        string
}

// Gateway is the directory of users and admins.
type Gateway interface {
	ResolveToken(ctx context.Context, accessToken string) (uuid.UUID, error)
	AdminRole(ctx context.Context, user uuid.UUID) (string, error)
	RevokeAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error
}

// InvitationStore removes in place of the gateway.
type InvitationStore interface {
	RemoveAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error
}

// RefusalRecorder is what a gateway implements to hear of refusals that are decided before its revoke is called.
type RefusalRecorder interface {
	RecordRefusal(ctx context.Context, actor, target uuid.UUID, reason, code string) error
}

// PanicError is a panic of a gateway, a store or a message hook, caught.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("identity: panic: %v", e.Value) }
