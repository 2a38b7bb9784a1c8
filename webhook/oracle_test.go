package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/openlup/pgrail/webhook"
)

// The oracle: each preset once more, written out by hand from its sender's documentation, with nothing shared with the
// package but the names.

func plainMAC(key, content string) []byte {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(content))
	return m.Sum(nil)
}

func plainHex(key, content string) string { return hex.EncodeToString(plainMAC(key, content)) }

func plainBase64(key, content string) string {
	return base64.StdEncoding.EncodeToString(plainMAC(key, content))
}

// plainSignature is the right signature value, without what the header puts around it.
func plainSignature(scheme, key, id, timestamp, body string) string {
	switch scheme {
	case "hex", "github":
		return plainHex(key, body)
	case "shopify":
		return plainBase64(key, body)
	case "slack":
		return plainHex(key, "v0:"+timestamp+":"+body)
	case "stripe":
		return plainHex(key, timestamp+"."+body)
	case "standard":
		return plainBase64(key, id+"."+timestamp+"."+body)
	}
	panic("no oracle for " + scheme)
}

var (
	digits    = regexp.MustCompile(`^[0-9]+$`)
	plainID   = regexp.MustCompile(`^[!-\-/-~]+$`) // printable ASCII without the full stop
	stripePar = regexp.MustCompile(`(?:^|,)t=([^,]*)`)
)

func plainInWindow(timestamp string, now int64) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	return digits.MatchString(timestamp) && err == nil && seconds >= now-300 && seconds <= now+300
}

func contains(list []string, want string) bool {
	for _, element := range list {
		if element == want {
			return true
		}
	}
	return false
}

// plainValid is the verdict by the plain definition, for one secret.
func plainValid(s webhook.Scheme, key string, now int64, h http.Header, body string) bool {
	only := func(name string) string {
		if len(h[name]) != 1 {
			return ""
		}
		return h[name][0]
	}
	signature := func(id, timestamp string) string { return plainSignature(s.Name, key, id, timestamp, body) }
	switch s.Name {
	case "hex":
		return only("X-Signature") == signature("", "")
	case "github":
		return only("X-Hub-Signature-256") == "sha256="+signature("", "")
	case "shopify":
		return only("X-Shopify-Hmac-Sha256") == signature("", "")
	case "slack":
		at := only("X-Slack-Request-Timestamp")
		return plainInWindow(at, now) && only("X-Slack-Signature") == "v0="+signature("", at)
	case "stripe":
		times := stripePar.FindAllStringSubmatch(only("Stripe-Signature"), -1)
		if len(times) != 1 || !plainInWindow(times[0][1], now) {
			return false
		}
		return contains(strings.Split(only("Stripe-Signature"), ","), "v1="+signature("", times[0][1]))
	}
	id, at := only("Webhook-Id"), only("Webhook-Timestamp")
	return plainID.MatchString(id) && plainInWindow(at, now) &&
		contains(strings.Split(only("Webhook-Signature"), " "), "v1,"+signature(id, at))
}
