package webhook

import (
	"slices"
	"strings"
)

// Invalid is an argument that cannot be used. It never quotes the value, which may be a secret.
type Invalid struct {
	Name    string
	Problem string
}

func (e *Invalid) Error() string { return "webhook: " + e.Name + " " + e.Problem }

// check refuses a scheme whose signatures could not be read, or could be read in two ways.
func (s Scheme) check() error {
	rules := []struct {
		name, problem string
		ok            bool
	}{
		{"Name", "must not be empty", s.Name != ""},
		{"SignatureHeader", "must be a header name", isHeaderName(s.SignatureHeader)},
		{"TimestampHeader", "must be a header name or empty", s.TimestampHeader == "" || isHeaderName(s.TimestampHeader)},
		{"IDHeader", "must be a header name or empty", s.IDHeader == "" || isHeaderName(s.IDHeader)},
		{"Separator", "must be empty, a space, a comma or a semicolon", slices.Contains([]string{"", " ", ",", ";"}, s.Separator)},
		{"TimestampPrefix", "needs a Separator", s.TimestampPrefix == "" || s.Separator != ""},
		{"TimestampPrefix", "must not be set beside TimestampHeader", s.TimestampPrefix == "" || s.TimestampHeader == ""},
		{"Signature", "must be a prefix followed by {hex} or {base64}", s.hasEncoding()},
		{"Signature", "must not contain the Separator", !s.separates(s.Signature)},
		{"TimestampPrefix", "must not contain the Separator", !s.separates(s.TimestampPrefix)},
		{"TimestampPrefix", "must not start the Signature too", s.TimestampPrefix == "" || !strings.HasPrefix(s.Signature, s.TimestampPrefix)},
		{"Signed", "must end in its only {body}, and {id} and {timestamp} in a literal that starts with no digit", s.isUnambiguous()},
		// An unsigned timestamp or id could be changed on the way, so carrying one without signing it is refused too.
		{"Signed", "must hold {timestamp} once if the headers carry one, and only then", s.signs(timePart, s.TimestampHeader+s.TimestampPrefix)},
		{"Signed", "must hold {id} once if IDHeader is set, and only then", s.signs(idPart, s.IDHeader)},
	}
	for _, r := range rules {
		if !r.ok {
			return &Invalid{"Scheme." + r.name, r.problem}
		}
	}
	return nil
}

func (s Scheme) hasEncoding() bool {
	_, _, ok := splitSignature(s.Signature)
	return ok
}

// separates reports text that splitting the list would tear apart.
func (s Scheme) separates(text string) bool {
	return s.Separator != "" && strings.Contains(text, s.Separator)
}

// isUnambiguous holds if two different deliveries never share their signed content: "{id}{timestamp}" would let a
// digit move from one into the other under the same signature.
func (s Scheme) isUnambiguous() bool {
	parts := pieces(s.Signed)
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		if i == len(parts)-1 {
			return part == bodyPart
		}
		if (part != idPart && part != timePart) || strings.ContainsAny(parts[i+1][:1], "{0123456789") {
			return false
		}
	}
	return false
}

func (s Scheme) signs(part, source string) bool {
	if source == "" {
		return !strings.Contains(s.Signed, part)
	}
	return strings.Count(s.Signed, part) == 1
}

func isHeaderName(s string) bool {
	return s != "" && strings.Trim(s, "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
