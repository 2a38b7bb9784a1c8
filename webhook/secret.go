package webhook

import (
	"crypto/subtle"
	"fmt"
	"io"

	internal "github.com/openlup/pgrail/internal/webhook"
)

// Secret is a secret shared with a sender. Printing one, in any format, does not show it.
type Secret struct{ open internal.Secret }

// SecretText is a secret as text, as senders show it to their users. Text that is empty, blank or contains a line break
// is refused by [NewVerifier] and [NewSigner]: it comes from an unset variable or an untrimmed file and matches nothing.
func SecretText(text string) Secret { return Secret{internal.Text(text)} }

// SecretBytes is a secret that is the key itself, whatever bytes it consists of; empty is refused. The bytes are copied.
func SecretBytes(key []byte) Secret { return Secret{internal.Bytes(key)} }

// Format implements [fmt.Formatter] for every verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "webhook.Secret(redacted)") }

// EqualSecret compares two shared secrets, such as a configured token and the one in a header, in constant time. Unequal
// lengths are unequal. Two empty strings are not equal: an unset token and a missing header must not open a door.
func EqualSecret(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func unwrap(secrets []Secret) []internal.Secret {
	out := make([]internal.Secret, len(secrets))
	for i, s := range secrets {
		out[i] = s.open
	}
	return out
}
