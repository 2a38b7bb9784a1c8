package webhook_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/openlup/pgrail/webhook"
)

func ExampleVerifier_Middleware() {
	const secret = "It's a Secret to Everybody" // from the configuration

	verifier, err := webhook.NewVerifier(webhook.GitHub, []webhook.Secret{webhook.SecretText(secret)})
	if err != nil {
		log.Fatal(err)
	}
	handler := verifier.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delivery, _ := webhook.FromContext(r.Context())
		fmt.Printf("%s, key %.8s\n", delivery.Body, delivery.Key())
	}))

	// The example of GitHub's documentation, and a forgery.
	for _, body := range []string{"Hello, World!", "Hello, Mallory!"} {
		r := httptest.NewRequest(http.MethodPost, "/hooks/github", strings.NewReader(body))
		r.Header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// Hello, World!, key dffd6021
	// 200
	// 401
}

func ExampleSigner() {
	signer, err := webhook.NewSigner(webhook.Standard, webhook.SecretText("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
	if err != nil {
		log.Fatal(err)
	}
	body := `{"type":"invoice.paid"}`
	r, err := http.NewRequest(http.MethodPost, "https://customer.example/hooks", strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	if err := signer.Sign(r.Header, "msg_1", time.Unix(1790000000, 0), []byte(body)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), r.Header.Get("Webhook-Signature")[:3])
	// Output: msg_1 1790000000 v1,
}

func ExampleVerifier_Stream() {
	verifier, err := webhook.NewVerifier(webhook.Hex, []webhook.Secret{webhook.SecretText("secret")})
	if err != nil {
		log.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/upload", strings.NewReader("a large body"))
	r.Header.Set("X-Signature", strings.Repeat("0", 64))

	body, err := verifier.Stream(r)
	if err != nil {
		log.Fatal(err)
	}
	defer body.Close()
	n, err := io.Copy(io.Discard, body)
	fmt.Println(n, err, webhook.StatusCode(err))
	// Output: 11 webhook: invalid signature 401
}

func ExampleScheme() {
	acme := webhook.Scheme{
		Name:            "acme",
		SignatureHeader: "X-Acme-Signature",
		Signature:       "{hex}",
		Signed:          "{body}",
	}
	_, err := webhook.NewVerifier(acme, []webhook.Secret{webhook.SecretText("secret\n")})
	fmt.Println(err)
	// Output: webhook: secret 1 must not contain a line break (read from a file?)
}
