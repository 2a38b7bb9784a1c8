package pgidentity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/identity"
)

// The codes of the [identity.StoreError] that calls beside a removal are refused with.
const (
	CodeAlreadyBootstrapped = "ALREADY_BOOTSTRAPPED" // there is an admin, or was
	CodeAlreadyAdmin        = "ALREADY_ADMIN"
	CodeHumanRequired       = "HUMAN_REQUIRED"     // machines are granted rights, not invited
	CodeInvitationInvalid   = "INVITATION_INVALID" // unknown, expired, void, or taken up already
	CodePrincipalExists     = "PRINCIPAL_EXISTS"
	CodePrincipalNotFound   = "PRINCIPAL_NOT_FOUND"
	CodePrincipalDisabled   = "PRINCIPAL_DISABLED"
)

// ArgumentError says which argument of a call is out of its range. Nothing was sent to the database.
type ArgumentError struct {
	Field string
	Rule  string // what the argument must be
}

func (e *ArgumentError) Error() string { return fmt.Sprintf("pgidentity: %s %s", e.Field, e.Rule) }

// done is the outcome of a function that did what it was asked for. Every other outcome is a refusal.
const done = "done"

// revokeTokens are the refusals that package identity has a row for.
var revokeTokens = []string{
	identity.TokenLastActiveHumanAdmin, identity.TokenSelfRevokeForbidden, identity.TokenMachineForbidden,
	identity.TokenTargetNotFound, identity.TokenTargetNotActive, identity.TokenForbidden,
}

var badRequests = []string{CodeHumanRequired, CodeInvitationInvalid, CodePrincipalNotFound, CodePrincipalDisabled}

// refusal is the outcome of a function as an error.
func refusal(outcome string) error {
	code, kind := strings.ToUpper(outcome), identity.KindConflict
	switch {
	case outcome == done:
		return nil
	case slices.Contains(revokeTokens, outcome):
		return &identity.RevokeError{Token: outcome}
	case slices.Contains(badRequests, code):
		kind = identity.KindBadRequest
	}
	return &identity.StoreError{Code: code, Kind: kind}
}

// failure keeps package identity from searching the text of an error that came from here: a server's error it knows by
// SQLSTATE, any other is given no name.
func failure(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return fmt.Errorf("pgidentity: %w", err)
	}
	return &identity.RevokeError{Err: err}
}
