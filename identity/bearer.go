package identity

import (
	"net/http"
	"strings"
)

// maxTokenBytes bounds what is handed to a gateway; signed tokens with many claims stay well below it.
const maxTokenBytes = 8 << 10

// BearerToken returns the access token of a request by RFC 9110, section 11.6.2, and RFC 6750: exactly one Authorization
// field, the scheme in any case, one or more spaces, then one token68 of at most 8 KiB.
func BearerToken(header http.Header) (token string, ok bool) {
	fields := header.Values("Authorization")
	if len(fields) != 1 {
		return "", false
	}
	scheme, rest, found := strings.Cut(fields[0], " ")
	token = strings.TrimLeft(rest, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || len(token) > maxTokenBytes || !isToken68(token) {
		return "", false
	}
	return token, true
}

// isToken68 is the grammar of RFC 9110, section 11.2: letters, digits and -._~+/ at least once, then any number of "=".
func isToken68(text string) bool {
	text = strings.TrimRight(text, "=")
	foreign := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/", r)
	}
	return text != "" && !strings.ContainsFunc(text, foreign)
}
