// Package webhook takes in HTTP deliveries that their sender has signed with HMAC-SHA256: it reads the body once, under a
// cap, checks the signature over exactly the bytes received, and only then hands them on.
//
// Two calls do it. [NewVerifier] is called once, with the sender's [Scheme] and the secrets shared with it; it refuses a
// scheme or a secret that could not work. [Verifier.Middleware] goes around the handler, which finds the delivery with
// [FromContext]:
//
//	verifier, err := webhook.NewVerifier(webhook.GitHub, []webhook.Secret{webhook.SecretText(secret)})
//	...
//	mux.Handle("POST /hooks/github", verifier.Middleware(handler))
//
// What does not pass never reaches the handler:
//
//	413  the body is larger than the cap
//	401  the signature is missing, wrong or given twice, or its timestamp is over 300 seconds off
//	400  the body was cut short or eaten by other code
//	408  the body did not come in time
//
// The answer to every failed verification is the same; the reason goes to the log only, and neither ever contains a
// secret or the right signature.
//
// Senders retry, so a handler sees some deliveries more than once. [Delivery.Key] is the same for every one of them; package
// inbox goes by it to write one event of the outbox for them all.
//
// Without the middleware: [Verifier.Receive] reads and verifies a request, [Verifier.Verify] takes a body already read,
// and [Verifier.Stream] verifies a body while it is forwarded. [Signer] is the sending side. Package webhooktest builds
// signed requests for tests.
//
// The package needs the standard library only.
package webhook
