package webhook

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// Secret gives the key to compute MACs with, or names what is wrong with it. The prefix is the scheme's SecretPrefix. As
// a closure it shows nothing to fmt or to printers that walk structs.
type Secret func(prefix string) (key []byte, problem string)

// Text is a secret as people copy it.
func Text(text string) Secret {
	return func(prefix string) ([]byte, string) {
		switch {
		case text == "":
			return nil, "must not be empty"
		case strings.TrimSpace(text) == "":
			return nil, "must not be blank"
		case strings.ContainsAny(text, "\r\n"):
			return nil, "must not contain a line break (read from a file?)"
		case prefix == "":
			return []byte(text), ""
		}
		return decode(prefix, text)
	}
}

func decode(prefix, text string) ([]byte, string) {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, "must start with " + prefix
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(key) == 0 {
		// The decoder's error is left out: this text promises to quote nothing of a secret.
		return nil, "must be base64 after " + prefix
	}
	return key, ""
}

// Bytes is a secret that is the key itself.
func Bytes(key []byte) Secret {
	key = bytes.Clone(key)
	return func(string) ([]byte, string) {
		if len(key) == 0 {
			return nil, "must not be empty"
		}
		return key, ""
	}
}
