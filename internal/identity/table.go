package identity

import "net/http"

// This file is the whole decision as data. What a caller is told is read here and nowhere else; the code beside it only
// walks these tables from top to bottom.

// reply is what a row answers: the status, the code for programs and the text for people.
type reply struct {
	status int
	code   string
	text   func(*Messages) string
}

// check is one row of the decision order. fails may answer an error with false, which means that the row could not be
// decided at all.
type check struct {
	fails func(*attempt) (bool, error)
	reply reply
}

// checks is the decision order before a revoke: the first row that fails answers.
var checks = []check{
	{noAccessToken,
		reply{http.StatusUnauthorized, "UNAUTHORIZED", func(m *Messages) string { return m.Unauthorized }}},
	{unresolvedToken,
		reply{http.StatusUnauthorized, "INVALID_TOKEN", func(m *Messages) string { return m.InvalidToken }}},
	{callerIsNoAdmin,
		reply{http.StatusForbidden, "REMOVE_FORBIDDEN", func(m *Messages) string { return m.RemoveForbidden }}},
	{noUserID,
		reply{http.StatusBadRequest, "USER_ID_REQUIRED", func(m *Messages) string { return m.UserIDRequired }}},
	{ownUserID,
		reply{http.StatusForbidden, "SELF_REVOKE_FORBIDDEN", func(m *Messages) string { return m.SelfRemoveForbidden }}},
}

// authentication is the part of the order that other handlers share.
var authentication = checks[:2]

// revokeError is one row of the error table: the token a revoke fails with, the SQLSTATE that pgrail's own SQL raises
// with it, and what the caller is told.
type revokeError struct {
	token    string
	sqlState string
	reply    reply
}

// revokeErrors stands in the order in which an opaque text is searched, so "forbidden", part of other tokens, is last.
var revokeErrors = []revokeError{
	{"last_active_human_admin", "ID001", lastAdmin},
	{"last_admin_lockout", "ID002", lastAdmin},
	{"self_revoke_forbidden", "ID003",
		reply{http.StatusForbidden, "SELF_REVOKE_FORBIDDEN", func(m *Messages) string { return m.SelfRevoke }}},
	{"machine_actor_revoke_forbidden", "ID004",
		reply{http.StatusForbidden, "MACHINE_ACTOR_REVOKE_FORBIDDEN", func(m *Messages) string { return m.MachineRevoke }}},
	{"target_not_found", "ID005", adminNotFound},
	{"target_not_active", "ID006", adminNotFound},
	{"forbidden", "ID007",
		reply{http.StatusForbidden, "ADMIN_REQUIRED", func(m *Messages) string { return m.AdminRequired }}},
}

var (
	lastAdmin     = reply{http.StatusConflict, "LAST_ACTIVE_HUMAN_ADMIN", func(m *Messages) string { return m.LastAdmin }}
	adminNotFound = reply{http.StatusBadRequest, "ADMIN_NOT_FOUND", func(m *Messages) string { return m.AdminNotFound }}
)

// storeKinds gives the status of a store's refusal with a code of its own; a kind that is not here counts as a conflict.
var storeKinds = map[string]int{
	"FORBIDDEN":   http.StatusForbidden,
	"BAD_REQUEST": http.StatusBadRequest,
}

const (
	raiseException = "P0001" // the SQLSTATE of a plain RAISE EXCEPTION

	revokeFailed = "REVOKE_FAILED"
	actionFailed = "IDENTITY_ACTION_FAILED"

	// textless stands in for the text of an error that has none.
	textless = "revoke_failed"
)
