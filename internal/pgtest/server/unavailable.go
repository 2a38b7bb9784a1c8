package server

import (
	"fmt"
	"strings"
)

// An UnavailableError tells why there is no server, and all that would help.
type UnavailableError struct {
	Only    Kind     // what the environment asks for, empty for any kind
	Reasons []Reason // in the order tried
}

// A Reason is why one kind gave no server.
type Reason struct {
	Kind Kind
	Err  error
}

func (e *UnavailableError) Error() string {
	var b strings.Builder
	b.WriteString("no PostgreSQL server to work with")
	if e.Only != "" {
		fmt.Fprintf(&b, ", as only the kind %q was asked for", e.Only)
	}
	b.WriteString(". Any one of these is enough:\n")
	for _, help := range []struct {
		kind Kind
		text string
	}{
		{KindURL, "set " + EnvURL + " to a server on which you are superuser"},
		{KindLocal, fmt.Sprintf("install server binaries, version %d or newer (Debian: apt-get install postgresql), or set %s to their directory", MinVersion, EnvBin)},
		{KindDocker, "start Docker; " + EnvImage + " names the image"},
	} {
		fmt.Fprintf(&b, "  %-7s %s%s\n", help.kind+":", help.text, e.why(help.kind))
	}
	b.WriteString(EnvServer + "=url, local or docker forces one.")
	return b.String()
}

func (e *UnavailableError) why(k Kind) string {
	for _, r := range e.Reasons {
		if r.Kind == k {
			return "\n          (tried: " + strings.ReplaceAll(r.Err.Error(), "\n", "\n          ") + ")"
		}
	}
	return ""
}

// Unwrap gives the reasons to errors.Is and errors.As.
func (e *UnavailableError) Unwrap() []error {
	all := make([]error, len(e.Reasons))
	for i, r := range e.Reasons {
		all[i] = r.Err
	}
	return all
}
