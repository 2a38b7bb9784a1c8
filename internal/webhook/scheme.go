// Package webhook is the mechanism behind the public package of the same name: it reads a body under a cap, reads what the
// headers claim, and computes and compares MACs. The exported types are declared and documented there.
package webhook

import (
	"net/http"
	"slices"
	"strings"
)

// Scheme has the fields of the public Scheme, so that one converts to the other.
type Scheme struct {
	Name            string
	SignatureHeader string
	Signature       string
	Separator       string
	TimestampHeader string
	TimestampPrefix string
	IDHeader        string
	Signed          string
	SecretPrefix    string
}

const (
	idPart   = "{id}"
	timePart = "{timestamp}"
	bodyPart = "{body}"
)

// layout is a scheme taken apart once, so that a delivery costs no parsing of templates.
type layout struct {
	Scheme
	prefix   string   // stands before the encoded MAC
	encoding encoding // how the MAC is written
	signed   []string // what is signed before the body, piece by piece
	idStop   string   // the character that ends the id in the signed content
}

func newLayout(s Scheme) (*layout, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	l := &layout{Scheme: s, signed: pieces(s.Signed)}
	l.prefix, l.encoding, _ = splitSignature(s.Signature)
	l.signed = l.signed[:len(l.signed)-1]
	if i := slices.Index(l.signed, idPart); i >= 0 {
		l.idStop = l.signed[i+1][:1]
	}
	l.SignatureHeader = http.CanonicalHeaderKey(s.SignatureHeader)
	l.TimestampHeader = http.CanonicalHeaderKey(s.TimestampHeader)
	l.IDHeader = http.CanonicalHeaderKey(s.IDHeader)
	return l, nil
}

// preamble writes what is signed before the body.
func (l *layout) preamble(c Claim) []byte {
	if len(l.signed) == 0 {
		return nil
	}
	out := make([]byte, 0, len(l.Signed)+len(c.ID)+len(c.Timestamp))
	for _, piece := range l.signed {
		switch piece {
		case idPart:
			out = append(out, c.ID...)
		case timePart:
			out = append(out, c.Timestamp...)
		default:
			out = append(out, piece...)
		}
	}
	return out
}

// pieces splits a template into placeholders and the literals between them.
func pieces(template string) []string {
	var out []string
	for rest := template; rest != ""; {
		cut := strings.IndexByte(rest, '{')
		if cut == 0 {
			cut = strings.IndexByte(rest, '}') + 1
		}
		if cut <= 0 {
			cut = len(rest)
		}
		out, rest = append(out, rest[:cut]), rest[cut:]
	}
	return out
}
