package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/openlup/pgrail/webhook"
)

const sensitive = "Sensitive-Secret"

// traces are the ways in which a formatter would show the bytes of text.
func traces(text string) []string {
	list := strings.Trim(fmt.Sprint([]byte(text[:8])), "[]")
	return []string{text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))), list,
		base64.StdEncoding.EncodeToString([]byte(text)), strings.ReplaceAll(fmt.Sprintf("%#x", []byte(text[:4])), "0x", "")}
}

func reveals(shown string) bool {
	for _, trace := range traces(sensitive) {
		if strings.Contains(shown, trace) {
			return true
		}
	}
	return false
}

// W17: no way to print a value of this package shows a secret, inside other values neither.
func TestW17NothingPrintsASecret(t *testing.T) {
	secret := webhook.SecretText(sensitive)
	v, err := webhook.NewVerifier(webhook.Hex, []webhook.Secret{secret, webhook.SecretBytes([]byte(sensitive))})
	if err != nil {
		t.Fatal(err)
	}
	signer, _ := webhook.NewSigner(webhook.Hex, secret)
	signer.Sign(http.Header{}, "", now, nil)
	_, failed := v.Verify(http.Header{"X-Signature": {strings.Repeat("0", 64)}}, nil)
	_, badSecret := webhook.NewVerifier(webhook.Standard, texts(sensitive))
	_, badBase64 := webhook.NewVerifier(webhook.Standard, texts("whsec_"+sensitive))
	type application struct {
		verifier *webhook.Verifier
		Signer   webhook.Signer
		secrets  []webhook.Secret
	}
	for _, value := range []any{secret, &secret, []webhook.Secret{secret}, v, *v, signer, *signer, failed, badSecret, badBase64,
		application{v, *signer, []webhook.Secret{secret}}, &application{v, *signer, []webhook.Secret{secret}}} {
		for _, verb := range strings.Fields("%v %+v %#v %s %q %x %X %d %o %t %c %U %e %p %T") {
			if shown := fmt.Sprintf(verb, value); reveals(shown) {
				t.Errorf("%s of %T shows the secret: %s", verb, value, shown)
			}
		}
		if shown, err := json.Marshal(value); err == nil && reveals(string(shown)) {
			t.Errorf("JSON of %T shows the secret: %s", value, shown)
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("", "value", value)
		if reveals(out.String()) {
			t.Errorf("slog of %T shows the secret: %s", value, out.String())
		}
		if reachable(reflect.ValueOf(value), map[reflect.Value]bool{}) {
			t.Errorf("a walk through %T finds the secret", value)
		}
	}
	planted := struct{ inner *struct{ key []byte } }{&struct{ key []byte }{[]byte(sensitive)}}
	if !reachable(reflect.ValueOf(planted), map[reflect.Value]bool{}) || !reveals(fmt.Sprintf("%+v", *planted.inner)) {
		t.Error("a planted secret was not found: this test cannot fail")
	}
}

// reachable walks a value as debuggers' printers do, through pointers and unexported fields.
func reachable(v reflect.Value, seen map[reflect.Value]bool) bool {
	if !v.IsValid() || seen[v] {
		return false
	}
	seen[v] = true
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return reachable(v.Elem(), seen)
	case reflect.String:
		return strings.Contains(v.String(), sensitive)
	case reflect.Struct:
		for i := range v.NumField() {
			if reachable(v.Field(i), seen) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return strings.Contains(fmt.Sprintf("%s", v), sensitive)
		}
		for i := range v.Len() {
			if reachable(v.Index(i), seen) {
				return true
			}
		}
	}
	return false
}

// W17: the answer and the log of a refused request hold neither the secret nor the right MAC nor the body.
func TestW17Refusals(t *testing.T) {
	body := []byte("a body that nobody else may read")
	for _, s := range presets {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		secret := webhook.SecretBytes([]byte(sensitive))
		v, err := webhook.NewVerifier(s, []webhook.Secret{secret}, fixedClock(), webhook.WithLogger(log))
		if err != nil {
			t.Fatal(err)
		}
		signer, _ := webhook.NewSigner(s, secret)
		h := http.Header{}
		if err := signer.Sign(h, "msg_1", now, body); err != nil {
			t.Fatal(err)
		}
		right := plainSignature(s.Name, sensitive, "msg_1", "1790000000", string(body))
		if !strings.Contains(h.Get(s.SignatureHeader), right) {
			t.Fatalf("%s: %v does not hold the right signature", s.Name, h)
		}
		h[s.SignatureHeader] = append(h[s.SignatureHeader], "junk")
		w, _ := serve(t, v, bytesRequest(h, body))
		_, refused := v.Verify(h, body)
		shown := w.Body.String() + fmt.Sprint(w.Header()) + out.String() + fmt.Sprintf("%v %+v %#v", refused, refused, refused)
		if w.Code != http.StatusUnauthorized || w.Body.String() != "invalid signature\n" {
			t.Errorf("%s: answer %d %q", s.Name, w.Code, w.Body)
		}
		if !strings.Contains(out.String(), "signature header") {
			t.Errorf("%s: the log gives no reason: %s", s.Name, out.String())
		}
		if reveals(shown) || strings.Contains(shown, right) || strings.Contains(shown, string(body)) {
			t.Errorf("%s: too much is shown: %s", s.Name, shown)
		}
	}
}
