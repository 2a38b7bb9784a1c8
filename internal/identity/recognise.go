package identity

import (
	"errors"
	"strings"
)

// serverError is a Postgres error of whichever driver: pgx and lib/pq both answer SQLState. Naming no driver's type here
// is what keeps drivers out of the importing application.
type serverError interface {
	error
	SQLState() string
}

// recognise finds the row of an error. An error that says what it is, by token or by SQLSTATE, is taken at its word and
// its text is not searched: Postgres repeats user input in messages, and that must not steer the answer.
func recognise(err error) (revokeError, bool) {
	var named interface{ RevokeToken() string }
	if errors.As(err, &named) {
		return find(func(row revokeError) bool { return row.token == named.RevokeToken() })
	}
	var server serverError
	if errors.As(err, &server) {
		return find(func(row revokeError) bool { return raised(server, row) })
	}
	text := err.Error()
	return find(func(row revokeError) bool { return strings.Contains(text, row.token) })
}

func find(matches func(revokeError) bool) (revokeError, bool) {
	for _, row := range revokeErrors {
		if matches(row) {
			return row, true
		}
	}
	return revokeError{}, false
}

func raised(err serverError, row revokeError) bool {
	state := err.SQLState()
	return state == row.sqlState || state == raiseException && serverMessage(err) == row.token
}

// serverMessage is the server's own message in a driver's text: "SEVERITY: message (SQLSTATE P0001)" in pgx, "pq: message"
// in lib/pq. A severity is one translated word, so the first colon ends it whatever the message holds.
func serverMessage(err serverError) string {
	_, message, _ := strings.Cut(err.Error(), ": ")
	message = strings.TrimSuffix(message, " ("+raiseException+")")
	return strings.TrimSuffix(message, " (SQLSTATE "+raiseException+")")
}
