package webhook

// Scheme says how one kind of sender signs: where the signature stands and what it covers. The presets below are the
// whole of what this package knows about each sender, so another sender is one more value of this type:
//
//	acme := webhook.Scheme{
//		Name:            "acme",
//		SignatureHeader: "X-Acme-Signature",
//		Signature:       "{hex}",
//		Signed:          "{body}",
//	}
//
// [NewVerifier] and [NewSigner] check every field and copy the scheme.
type Scheme struct {
	// Name stands in Delivery.Scheme and in logs. It must not be empty.
	Name string

	// SignatureHeader is the header with the signature. A delivery must have exactly one value of it.
	SignatureHeader string

	// Signature is how a signature is written: an optional prefix, then {hex} (lower case) or {base64} (padded).
	Signature string

	// Separator, if not empty, makes the header a list: a space, a comma or a semicolon. One good signature in the list is
	// enough, and elements that do not start like Signature are passed over.
	Separator string

	// TimestampHeader is the header with the time of sending in unix seconds, if the scheme has one. The time may lie at most
	// 300 seconds before or after the verifier's clock.
	TimestampHeader string

	// TimestampPrefix marks the time of sending inside the list in SignatureHeader, if it stands there.
	TimestampPrefix string

	// IDHeader is the header with the message's id, if the scheme signs one.
	IDHeader string

	// Signed is what the signature covers: literals, {timestamp} and {id} if the headers carry them, and {body} at the end.
	// A literal must follow {timestamp} and {id}; an id containing that literal's first character is refused.
	Signed string

	// SecretPrefix, if not empty, starts every text secret; the key is the base64 after it. Otherwise the text is the key.
	SecretPrefix string
}

// The presets.
var (
	// Hex is the bare scheme: the MAC of the body in hex.
	Hex = Scheme{
		Name:            "hex",
		SignatureHeader: "X-Signature",
		Signature:       "{hex}",
		Signed:          "{body}",
	}

	// GitHub signs the body. Its X-GitHub-Delivery and X-GitHub-Event headers are not signed.
	GitHub = Scheme{
		Name:            "github",
		SignatureHeader: "X-Hub-Signature-256",
		Signature:       "sha256={hex}",
		Signed:          "{body}",
	}

	// Shopify signs the body, in base64.
	Shopify = Scheme{
		Name:            "shopify",
		SignatureHeader: "X-Shopify-Hmac-Sha256",
		Signature:       "{base64}",
		Signed:          "{body}",
	}

	// Slack signs the time of sending and the body.
	Slack = Scheme{
		Name:            "slack",
		SignatureHeader: "X-Slack-Signature",
		Signature:       "v0={hex}",
		TimestampHeader: "X-Slack-Request-Timestamp",
		Signed:          "v0:{timestamp}:{body}",
	}

	// Stripe signs the time of sending and the body. Its secrets are used whole, whsec_ included.
	Stripe = Scheme{
		Name:            "stripe",
		SignatureHeader: "Stripe-Signature",
		Signature:       "v1={hex}",
		Separator:       ",",
		TimestampPrefix: "t=",
		Signed:          "{timestamp}.{body}",
	}

	// Standard is Standard Webhooks 1.0.0, symmetric signatures: the id, the time of sending and the body are signed.
	Standard = Scheme{
		Name:            "standard",
		SignatureHeader: "Webhook-Signature",
		Signature:       "v1,{base64}",
		Separator:       " ",
		TimestampHeader: "Webhook-Timestamp",
		IDHeader:        "Webhook-Id",
		Signed:          "{id}.{timestamp}.{body}",
		SecretPrefix:    "whsec_",
	}
)
