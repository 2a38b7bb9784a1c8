package webhook_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/webhook"
)

// argument returns the name and problem of an ArgumentError, both empty for no error.
func argument(t *testing.T, err error) webhook.ArgumentError {
	t.Helper()
	var bad *webhook.ArgumentError
	if err == nil {
		return webhook.ArgumentError{}
	}
	if !errors.As(err, &bad) {
		t.Fatalf("error %v, want an ArgumentError", err)
	}
	return *bad
}

// W14: secrets that match nothing are refused when the verifier or signer is built, by name.
func TestW14Secrets(t *testing.T) {
	text, key := webhook.SecretText, webhook.SecretBytes
	whole := base64.StdEncoding.EncodeToString(make([]byte, 24))
	cases := map[string]struct {
		scheme  webhook.Scheme
		secret  webhook.Secret
		problem string
	}{
		"empty":              {webhook.Hex, text(""), "must not be empty"},
		"zero":               {webhook.Hex, webhook.Secret{}, "must not be empty"},
		"no bytes":           {webhook.Hex, key(nil), "must not be empty"},
		"blank":              {webhook.Hex, text(" \t\u00a0"), "must not be blank"},
		"line feed":          {webhook.GitHub, text("secret\n"), "must not contain a line break (read from a file?)"},
		"carriage return":    {webhook.Slack, text("secret\r"), "must not contain a line break (read from a file?)"},
		"CRLF":               {webhook.Stripe, text("whsec_a\r\nb"), "must not contain a line break (read from a file?)"},
		"standard, no start": {webhook.Standard, text(whole), "must start with whsec_"},
		"standard, nothing":  {webhook.Standard, text("whsec_"), "must be base64 after whsec_"},
		"standard, text":     {webhook.Standard, text("whsec_not base64!"), "must be base64 after whsec_"},
		"standard, URL":      {webhook.Standard, text("whsec_-_-_"), "must be base64 after whsec_"},
		"standard, unpadded": {webhook.Standard, text("whsec_YWI"), "must be base64 after whsec_"},
		"standard, bits":     {webhook.Standard, text("whsec_YWJ="), "must be base64 after whsec_"},
		"standard":           {webhook.Standard, text("whsec_" + whole), ""},
		"standard, bytes":    {webhook.Standard, key(make([]byte, 24)), ""},
		"RFC 4231 key":       {webhook.Hex, key([]byte(strings.Repeat("\x0b", 20))), ""},
		"bytes with newline": {webhook.Hex, key([]byte("\n")), ""},
		"inner space":        {webhook.Hex, text("correct horse"), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := webhook.ArgumentError{}
			if c.problem != "" {
				want = webhook.ArgumentError{Name: "secret 2", Problem: c.problem}
			}
			_, err := webhook.NewVerifier(c.scheme, []webhook.Secret{key([]byte("k")), c.secret})
			if diff := cmp.Diff(want, argument(t, err)); diff != "" {
				t.Errorf("NewVerifier (-want +got):\n%s", diff)
			}
			_, err = webhook.NewSigner(c.scheme, c.secret)
			if got := argument(t, err).Problem; got != c.problem {
				t.Errorf("NewSigner: %q, want %q", got, c.problem)
			}
		})
	}
	_, err := webhook.NewVerifier(webhook.Hex, nil)
	if got := argument(t, err); got.Name != "secrets" {
		t.Errorf("no secrets: %v", err)
	}
}

// W14: the first test case of RFC 4231, whose key no text secret could be.
func TestW14KeyOfBytes(t *testing.T) {
	v, err := webhook.NewVerifier(webhook.Hex, []webhook.Secret{webhook.SecretBytes([]byte(strings.Repeat("\x0b", 20)))})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"X-Signature": {"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"}}
	if _, err := v.Verify(h, []byte("Hi There")); err != nil {
		t.Error(err)
	}
	if _, err := v.Verify(h, []byte("Hi there")); err == nil {
		t.Error("another body passed")
	}
}

// A secret's bytes are copied, so that the caller may wipe them.
func TestSecretBytesAreCopied(t *testing.T) {
	key := []byte("key")
	secret := webhook.SecretBytes(key)
	clear(key)
	v, err := webhook.NewVerifier(webhook.Hex, []webhook.Secret{secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(http.Header{"X-Signature": {plainHex("key", "a")}}, []byte("a")); err != nil {
		t.Error(err)
	}
}

func TestOptionsRefused(t *testing.T) {
	for want, options := range map[string][]webhook.Option{
		"":                 {webhook.WithMaxBodyBytes(1), webhook.WithMaxBodyBytes(1 << 30), webhook.WithReadTimeout(1), webhook.WithReadTimeout(time.Hour)},
		"WithClock":        {webhook.WithClock(nil)},
		"WithLogger":       {webhook.WithLogger(nil)},
		"WithMaxBodyBytes": {webhook.WithMaxBodyBytes(0), webhook.WithMaxBodyBytes(-1), webhook.WithMaxBodyBytes(1<<30 + 1)},
		"WithReadTimeout":  {webhook.WithReadTimeout(0), webhook.WithReadTimeout(-1), webhook.WithReadTimeout(time.Hour + 1)},
		"option 1":         {nil},
	} {
		for i, o := range options {
			_, err := webhook.NewVerifier(webhook.Hex, texts("secret"), o)
			if got := argument(t, err); got.Name != want {
				t.Errorf("%q, %d: %v", want, i, err)
			}
		}
	}
}

// Another sender is one more value, here one that lists hex signatures after a timestamp, between semicolons.
func TestSchemeOfOnesOwn(t *testing.T) {
	s := webhook.Scheme{
		Name:            "acme",
		SignatureHeader: "acme-signature",
		Signature:       "h1={hex}",
		Separator:       ";",
		TimestampPrefix: "ts=",
		Signed:          "{timestamp}:{body}",
	}
	h := http.Header{"Acme-Signature": {"ts=1790000000;h1=" + plainHex("secret", "1790000000:{}")}}
	checkEverywhere(t, s, []string{"secret"}, now, h, []byte("{}"), true)
	checkEverywhere(t, s, []string{"secret"}, now, h, []byte("[]"), false)
	if diff := cmp.Diff(h, sign(t, s, "secret", []byte("{}"))); diff != "" {
		t.Errorf("Sign (-want +got):\n%s", diff)
	}
}

// What could not be verified, or could be read in two ways, is refused by field.
func TestSchemesRefused(t *testing.T) {
	type fields = func(*webhook.Scheme)
	for name, changes := range map[string][]fields{
		"Name":            {func(s *webhook.Scheme) { s.Name = "" }},
		"SignatureHeader": {func(s *webhook.Scheme) { s.SignatureHeader = "" }, func(s *webhook.Scheme) { s.SignatureHeader = "X Y" }},
		"IDHeader":        {func(s *webhook.Scheme) { s.IDHeader = "X:Y" }},
		"TimestampHeader": {func(s *webhook.Scheme) { s.TimestampHeader = "é" }},
		"Separator":       {func(s *webhook.Scheme) { s.Separator = "a" }, func(s *webhook.Scheme) { s.Separator = ", " }},
		"TimestampPrefix": {
			func(s *webhook.Scheme) { s.TimestampPrefix = "t=" },
			func(s *webhook.Scheme) { s.TimestampHeader, s.TimestampPrefix = "", "t " },
			func(s *webhook.Scheme) { s.TimestampHeader, s.TimestampPrefix, s.Separator = "", "t=", "" },
			func(s *webhook.Scheme) { s.TimestampHeader, s.TimestampPrefix = "", "v1" },
		},
		"Signature": {
			func(s *webhook.Scheme) { s.Signature = "" },
			func(s *webhook.Scheme) { s.Signature = "{HEX}" },
			func(s *webhook.Scheme) { s.Signature = "{hex}!" },
			func(s *webhook.Scheme) { s.Signature = "v1 {hex}" },
		},
		"Signed": {
			func(s *webhook.Scheme) { s.Signed = "" },
			func(s *webhook.Scheme) { s.Signed = "{body}" },
			func(s *webhook.Scheme) { s.Signed = "{id}.{timestamp}." },
			func(s *webhook.Scheme) { s.Signed = "{id}.{timestamp}.{body" },
			func(s *webhook.Scheme) { s.Signed = "{id}{timestamp}.{body}" },
			func(s *webhook.Scheme) { s.Signed = "{id}.{timestamp}{body}" },
			func(s *webhook.Scheme) { s.Signed = "{id}.{timestamp}0{body}" },
			func(s *webhook.Scheme) { s.Signed = "{body}{id}.{timestamp}." },
			func(s *webhook.Scheme) { s.Signed = "{body}.{id}.{timestamp}.{body}" },
			func(s *webhook.Scheme) { s.Signed = "{id}.{id}.{timestamp}.{body}" },
			func(s *webhook.Scheme) { s.Signed = "{id}.{timestamp}.{timestamp}.{body}" },
			func(s *webhook.Scheme) { s.Signed = "{id}.{timestamp}.{url}.{body}" },
			func(s *webhook.Scheme) { s.Signed = "{timestamp}.{body}" },
			func(s *webhook.Scheme) { s.Signed = "{id}.{body}" },
			func(s *webhook.Scheme) { s.IDHeader = "" },
			func(s *webhook.Scheme) { s.TimestampHeader = "" },
		},
	} {
		for i, change := range changes {
			s := webhook.Standard
			change(&s)
			_, err := webhook.NewVerifier(s, []webhook.Secret{webhook.SecretBytes([]byte("k"))})
			if got := argument(t, err); got.Name != "Scheme."+name {
				t.Errorf("%s, %d: %v", name, i, err)
			}
		}
	}
}

func TestSignRefuses(t *testing.T) {
	key := webhook.SecretBytes([]byte("k"))
	cases := map[string]struct {
		scheme webhook.Scheme
		id     string
		at     time.Time
		want   string
	}{
		"no id":             {webhook.Standard, "", now, "id"},
		"id with stop":      {webhook.Standard, "a.b", now, "id"},
		"id with newline":   {webhook.Standard, "a\nb", now, "id"},
		"before 1970":       {webhook.Slack, "", time.Unix(-1, 0), "time"},
		"zero time":         {webhook.Stripe, "", time.Time{}, "time"},
		"1970":              {webhook.Slack, "", time.Unix(0, 0), ""},
		"nothing to refuse": {webhook.Hex, "a.b\n", time.Time{}, ""},
	}
	for name, c := range cases {
		signer, err := webhook.NewSigner(c.scheme, key)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		err = signer.Sign(h, c.id, c.at, nil)
		if got := argument(t, err); got.Name != c.want || (err != nil) != (len(h) == 0) {
			t.Errorf("%s: %v, headers %v", name, err, h)
		}
	}
}

func TestSignRefusesNilHeader(t *testing.T) {
	signer, err := webhook.NewSigner(webhook.Hex, webhook.SecretText("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if got := argument(t, signer.Sign(nil, "", now, nil)); got.Name != "header" {
		t.Errorf("Sign: %v", got)
	}
}

// Any of the secrets may have signed, in any place.
func TestRotation(t *testing.T) {
	for _, s := range presets {
		old, current, foreign := newSecret(s), newSecret(s), newSecret(s)
		for signer, valid := range map[string]bool{old: true, current: true, foreign: false} {
			h := sign(t, s, signer, []byte("{}"))
			checkEverywhere(t, s, []string{old, current}, now, h, []byte("{}"), valid)
			checkEverywhere(t, s, []string{current, old}, now, h, []byte("{}"), valid)
		}
	}
}

func TestEqualSecret(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"", "", false}, {"a", "", false}, {"", "a", false}, {"a", "a", true}, {"a", "b", false}, {"a", "aa", false}, {"a\x00", "a", false}} {
		if got := webhook.EqualSecret(c.a, c.b); got != c.want {
			t.Errorf("EqualSecret(%q, %q) = %v", c.a, c.b, got)
		}
	}
}
