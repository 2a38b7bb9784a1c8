package webhook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/webhook"
)

func load[T any](t *testing.T, path string) T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

type bareVectors struct {
	MaxBodyBytes int
	Verify       []struct {
		Name, Body, SignatureHeader, Secret string
		Valid                               bool
	}
	Equal []struct {
		Left, Right string
		Equal       bool
	}
	Body []struct {
		Bytes, Chunk int
		Expect       struct {
			Bytes int
			Error string
		}
	}
}

func TestVectorsBare(t *testing.T) {
	vectors := load[bareVectors](t, "testdata/webhook.json")
	if vectors.MaxBodyBytes != webhook.MaxBodyBytes {
		t.Errorf("MaxBodyBytes = %d, want %d", webhook.MaxBodyBytes, vectors.MaxBodyBytes)
	}
	for _, c := range vectors.Verify {
		t.Run(c.Name, func(t *testing.T) {
			h := http.Header{"X-Signature": {c.SignatureHeader}}
			checkEverywhere(t, webhook.Hex, []string{c.Secret}, now, h, []byte(c.Body), c.Valid)
		})
	}
	for _, c := range vectors.Equal {
		// The one deliberate difference: two unset secrets must not open a door.
		want := c.Equal && c.Left != ""
		if got := webhook.EqualSecret(c.Left, c.Right); got != want {
			t.Errorf("EqualSecret(%q, %q) = %v, want %v", c.Left, c.Right, got, want)
		}
	}
}

func TestVectorsBody(t *testing.T) {
	for _, c := range load[bareVectors](t, "testdata/webhook.json").Body {
		body, err := webhook.ReadBody(request(nil, chunked(c.Bytes, c.Chunk)))
		var large *webhook.BodyTooLargeError
		if got := errors.As(err, &large); got != (c.Expect.Error != "") || len(body) != c.Expect.Bytes {
			t.Errorf("%d bytes in chunks of %d: %d bytes, %v", c.Bytes, c.Chunk, len(body), err)
		}
	}
}

// chunked has size bytes, given out in pieces of at most chunk.
func chunked(size, chunk int) io.Reader {
	return &pieces{bytes.NewReader(make([]byte, size)), chunk}
}

type pieces struct {
	src  io.Reader
	size int
}

func (r *pieces) Read(p []byte) (int, error) { return r.src.Read(p[:min(len(p), r.size)]) }

type schemeVector struct {
	Scheme, Name string
	Secrets      []string
	Now          int64
	Headers      map[string][]string
	BodyB64      []byte `json:"body_b64"`
	Valid        bool
}

func TestVectorsSchemes(t *testing.T) {
	seen := map[string]int{}
	for _, c := range load[[]schemeVector](t, "testdata/webhook_schemes.json") {
		t.Run(c.Scheme+"/"+c.Name, func(t *testing.T) {
			s := presetNamed(t, c.Scheme)
			checkEverywhere(t, s, c.Secrets, time.Unix(c.Now, 0), canonical(c.Headers), c.BodyB64, c.Valid)
		})
		seen[c.Scheme]++
	}
	if len(seen) != len(presets) {
		t.Errorf("vectors for %v, want all presets", seen)
	}
}

// checkEverywhere asks every way in for its verdict on one delivery.
func checkEverywhere(t *testing.T, s webhook.Scheme, secrets []string, at time.Time, h http.Header, body []byte, valid bool) {
	t.Helper()
	clock := webhook.WithClock(func() time.Time { return at })
	v, err := webhook.NewVerifier(s, texts(secrets...), clock, quiet())
	if err != nil {
		if valid {
			t.Fatal(err)
		}
		return
	}
	check := func(way string, got []byte, err error) {
		t.Helper()
		switch {
		case valid && (err != nil || !bytes.Equal(got, body)):
			t.Errorf("%s: %v, body %q, want %q", way, err, got, body)
		case !valid && !errors.Is(err, webhook.ErrInvalidSignature):
			t.Errorf("%s: %v, want invalid signature", way, err)
		}
	}
	d, err := v.Verify(h, body)
	check("Verify", d.Body, err)
	d, err = v.Receive(bytesRequest(h, body))
	check("Receive", d.Body, err)
	streamed, err := readStream(v, bytesRequest(h, body))
	check("Stream", streamed, err)
	w, got := serve(t, v, bytesRequest(h, body))
	if want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[valid]; w.Code != want {
		t.Errorf("Middleware: %d, want %d", w.Code, want)
	}
	if valid && !bytes.Equal(got, body) {
		t.Errorf("Middleware: body %q, want %q", got, body)
	}
}

func readStream(v *webhook.Verifier, r *http.Request) ([]byte, error) {
	s, err := v.Stream(r)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return io.ReadAll(iotest.HalfReader(s))
}

// The signing side writes what the vectors, which come from elsewhere, call right.
func TestVectorsSigner(t *testing.T) {
	signed := map[string]int{}
	for _, c := range load[[]schemeVector](t, "testdata/webhook_schemes.json") {
		s := presetNamed(t, c.Scheme)
		want := canonical(c.Headers)
		// A signer has one secret and writes one signature.
		if !c.Valid || len(c.Secrets) > 1 || strings.Count(want.Get(s.SignatureHeader), "v1") > 1 {
			continue
		}
		t.Run(c.Scheme+"/"+c.Name, func(t *testing.T) {
			signer, err := webhook.NewSigner(s, webhook.SecretText(c.Secrets[0]))
			if err != nil {
				t.Fatal(err)
			}
			got := http.Header{}
			if err := signer.Sign(got, want.Get("Webhook-Id"), sentAt(t, s, want), c.BodyB64); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
		signed[c.Scheme]++
	}
	if len(signed) != len(presets) {
		t.Errorf("signed vectors of %v, want all presets", signed)
	}
}

func sentAt(t *testing.T, s webhook.Scheme, h http.Header) time.Time {
	t.Helper()
	text := h.Get(s.TimestampHeader)
	if s.TimestampPrefix != "" {
		text, _, _ = strings.Cut(strings.TrimPrefix(h.Get(s.SignatureHeader), s.TimestampPrefix), s.Separator)
	}
	if text == "" {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(seconds, 0)
}

func canonical(headers map[string][]string) http.Header {
	h := http.Header{}
	for name, values := range headers {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return h
}

func presetNamed(t *testing.T, name string) webhook.Scheme {
	t.Helper()
	i := slices.IndexFunc(presets, func(s webhook.Scheme) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no preset %q", name)
	}
	return presets[i]
}
