package identity

import "fmt"

// The tokens a revoke fails with. pgrail's own SQL raises each with the SQLSTATE beside it.
const (
	TokenLastActiveHumanAdmin = "last_active_human_admin"        // ID001: 409 LAST_ACTIVE_HUMAN_ADMIN
	TokenLastAdminLockout     = "last_admin_lockout"             // ID002: 409 LAST_ACTIVE_HUMAN_ADMIN
	TokenSelfRevokeForbidden  = "self_revoke_forbidden"          // ID003: 403 SELF_REVOKE_FORBIDDEN
	TokenMachineForbidden     = "machine_actor_revoke_forbidden" // ID004: 403 MACHINE_ACTOR_REVOKE_FORBIDDEN
	TokenTargetNotFound       = "target_not_found"               // ID005: 400 ADMIN_NOT_FOUND
	TokenTargetNotActive      = "target_not_active"              // ID006: 400 ADMIN_NOT_FOUND
	TokenForbidden            = "forbidden"                      // ID007: 403 ADMIN_REQUIRED
)

// RevokeError is how a [Gateway] or [InvitationStore] names the reason of a failure without leaving it to a text.
//
// An error that is none is recognised in one of two other ways. If it answers SQLState, as the errors of pgx and lib/pq
// do, it counts by one of our own SQLSTATEs, or by P0001 with a message that equals a token. Any other error counts by the
// first token contained in its text, in the order of the constants above, case-sensitive.
type RevokeError struct {
	Token string // a Token constant; anything else, "" too, is a failure without a name: 500 REVOKE_FAILED
	Err   error  // the cause, may be nil
}

func (e *RevokeError) Error() string {
	token := e.Token
	if token == "" {
		token = "revoke failed"
	}
	if e.Err == nil {
		return "identity: " + token
	}
	return fmt.Sprintf("identity: %s: %v", token, e.Err)
}

// Unwrap returns the cause.
func (e *RevokeError) Unwrap() error { return e.Err }

// Is matches every RevokeError of the same token, so that errors.Is(err, &RevokeError{Token: TokenForbidden}) works.
func (e *RevokeError) Is(target error) bool {
	t, ok := target.(*RevokeError)
	return ok && t.Token == e.Token && t.Err == nil
}

// RevokeToken returns the token. Any error with this method counts as a RevokeError.
func (e *RevokeError) RevokeToken() string { return e.Token }

// Kind says what sort of refusal a [StoreError] is.
type Kind string

// The kinds and their status. Any other kind is 409 as well.
const (
	KindForbidden  Kind = "FORBIDDEN"   // 403
	KindBadRequest Kind = "BAD_REQUEST" // 400
	KindConflict   Kind = "CONFLICT"    // 409
)

// StoreError is a refusal of an [InvitationStore] with a code of its own, which becomes both the code and the text of the
// answer. Without a code it is answered like any other error.
type StoreError struct {
	Code string // for instance INVITATION_PENDING
	Kind Kind
	Err  error // the cause, may be nil
}

func (e *StoreError) Error() string {
	switch {
	case e.Err == nil:
		return e.Code
	case e.Code == "":
		return e.Err.Error()
	}
	return e.Code + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Is matches every StoreError of the same code.
func (e *StoreError) Is(target error) bool {
	t, ok := target.(*StoreError)
	return ok && t.Code == e.Code && t.Err == nil
}

// StoreRefusal returns the code and the kind. Any error with this method counts as a StoreError.
func (e *StoreError) StoreRefusal() (code, kind string) { return e.Code, string(e.Kind) }

// LookupError says that a gateway could not look, which says nothing about what it was asked.
type LookupError struct{ Err error }

func (e *LookupError) Error() string { return fmt.Sprintf("identity: lookup failed: %v", e.Err) }

// Unwrap returns the cause.
func (e *LookupError) Unwrap() error { return e.Err }

// LookupFailed returns true. Any error whose LookupFailed does counts as a LookupError.
func (e *LookupError) LookupFailed() bool { return true }

// PanicError is the Cause of an answer when a gateway, a store or a message hook panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("identity: panic: %v", e.Value) }

// Unwrap returns the value if the panic was raised with an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ConfigError says which field of a [Config] New refused, and why.
type ConfigError struct {
	Field string
	Rule  string // what the field must be
}

func (e *ConfigError) Error() string { return fmt.Sprintf("identity: Config.%s %s", e.Field, e.Rule) }
