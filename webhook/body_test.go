package webhook_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/openlup/pgrail/webhook"
)

// W1: whoever reads the body before the verifier is named as the fault, not the signature.
func TestW1BodyConsumed(t *testing.T) {
	form := func(body io.Reader) *http.Request {
		r := request(nil, body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	cases := map[string]struct {
		request *http.Request
		before  func(*http.Request)
	}{
		"form parser":              {form(strings.NewReader("a=1&b=2")), func(r *http.Request) { r.ParseForm() }},
		"read whole":               {request(nil, strings.NewReader("a=1&b=2")), func(r *http.Request) { io.ReadAll(r.Body) }},
		"read in part":             {request(nil, strings.NewReader("a=1&b=2")), func(r *http.Request) { io.CopyN(io.Discard, r.Body, 3) }},
		"closed":                   {request(nil, iotest.ErrReader(http.ErrBodyReadAfterClose)), func(*http.Request) {}},
		"taken away":               {request(nil, strings.NewReader("a=1&b=2")), func(r *http.Request) { r.Body = nil }},
		"replaced by an empty one": {request(nil, strings.NewReader("a=1&b=2")), func(r *http.Request) { r.Body = http.NoBody }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.before(c.request)
			body, err := webhook.ReadBody(c.request)
			if !errors.Is(err, webhook.ErrBodyConsumed) || errors.Is(err, webhook.ErrInvalidSignature) || body != nil {
				t.Errorf("ReadBody = %q, %v, want no bytes and ErrBodyConsumed", body, err)
			}
			if got := webhook.StatusCode(err); got != http.StatusBadRequest {
				t.Errorf("StatusCode = %d", got)
			}
		})
	}
}

// A form parser that had no reason to touch the body, or gave it back, has not consumed it.
func TestW1FormParserWithoutHarm(t *testing.T) {
	for _, body := range []string{"", "{}"} {
		r := request(http.Header{"Content-Type": {"application/json"}}, chunked(0, 1))
		r.Body = io.NopCloser(strings.NewReader(body))
		if err := r.ParseForm(); err != nil {
			t.Fatal(err)
		}
		if got, err := webhook.ReadBody(r); string(got) != body || err != nil {
			t.Errorf("JSON %q: ReadBody = %q, %v", body, got, err)
		}
	}
	r := request(http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, chunked(0, 1))
	r.Body = io.NopCloser(strings.NewReader("a=1"))
	if err := r.ParseForm(); err != nil || r.PostForm.Get("a") != "1" {
		t.Fatalf("ParseForm: %v, %v", r.PostForm, err)
	}
	if _, err := webhook.ReadBody(r); !errors.Is(err, webhook.ErrBodyConsumed) {
		t.Errorf("parsed: %v", err)
	}
	r.Body = io.NopCloser(strings.NewReader("a=1"))
	if got, err := webhook.ReadBody(r); string(got) != "a=1" || err != nil {
		t.Errorf("given back: ReadBody = %q, %v", got, err)
	}
}

// endless never stops and counts what it gave.
type endless struct{ given int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.given += int64(len(p))
	return len(p), nil
}

// W2: one byte over the cap is enough to refuse, and what is kept on the way stays in proportion to the cap.
func TestW2EndlessBody(t *testing.T) {
	src := &endless{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body, err := webhook.ReadBody(request(nil, src))
	runtime.ReadMemStats(&after)
	var large *webhook.BodyTooLargeError
	if !errors.As(err, &large) || body != nil {
		t.Errorf("ReadBody = %d bytes, %v", len(body), err)
	}
	if src.given != webhook.MaxBodyBytes+1 {
		t.Errorf("read %d bytes, want %d", src.given, webhook.MaxBodyBytes+1)
	}
	// Growing by doubling allocates 2 + 1 + 1/2 + ... times the cap, and the race detector's build twice that.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 10*webhook.MaxBodyBytes {
		t.Errorf("allocated %d bytes", grown)
	}
}

// A declared length alone reserves little: what was not sent is not paid for.
func TestW2DeclaredOnly(t *testing.T) {
	r := request(nil, iotest.ErrReader(io.ErrUnexpectedEOF))
	r.ContentLength = webhook.MaxBodyBytes
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := webhook.ReadBody(r)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > webhook.MaxBodyBytes/4 || err == nil {
		t.Errorf("allocated %d bytes, error %v", grown, err)
	}
}

// W3: too large by one byte, found while reading or, if declared, without reading.
func TestW3OneByteTooMany(t *testing.T) {
	var large *webhook.BodyTooLargeError
	if _, err := webhook.ReadBody(request(nil, chunked(webhook.MaxBodyBytes+1, 4096))); !errors.As(err, &large) {
		t.Errorf("chunked: %v", err)
	}
	src := &endless{}
	r := request(nil, src)
	r.ContentLength = webhook.MaxBodyBytes + 1
	if _, err := webhook.ReadBody(r); !errors.As(err, &large) || src.given != 0 {
		t.Errorf("declared: %v after %d bytes", err, src.given)
	}
}

// W4: every size up to the cap comes back as sent, however the reader cuts it.
func TestW4Sizes(t *testing.T) {
	readers := map[string]func(io.Reader) io.Reader{
		"whole":          func(r io.Reader) io.Reader { return r },
		"byte by byte":   iotest.OneByteReader,
		"data with EOF":  iotest.DataErrReader,
		"byte, then EOF": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
	}
	for _, size := range []int{0, 1, webhook.MaxBodyBytes - 1, webhook.MaxBodyBytes, webhook.MaxBodyBytes + 1, 4 * webhook.MaxBodyBytes} {
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for name, cut := range readers {
			t.Run(fmt.Sprintf("%d/%s", size, name), func(t *testing.T) {
				for _, declared := range []int64{-1, int64(size)} {
					r := request(nil, cut(bytes.NewReader(want)))
					r.ContentLength = declared
					checkSize(t, r, want)
				}
			})
		}
	}
}

func checkSize(t *testing.T, r *http.Request, want []byte) {
	t.Helper()
	body, err := webhook.ReadBody(r)
	var large *webhook.BodyTooLargeError
	switch {
	case len(want) <= webhook.MaxBodyBytes && (err != nil || body == nil || !bytes.Equal(body, want)):
		t.Errorf("declared %d: %d bytes, %v", r.ContentLength, len(body), err)
	case len(want) > webhook.MaxBodyBytes && (!errors.As(err, &large) || body != nil):
		t.Errorf("declared %d: %d bytes, %v, want too large", r.ContentLength, len(body), err)
	}
}

// W5: the error carries its limit through a wrap, also when the limit was another handler's.
func TestW5TooLarge(t *testing.T) {
	_, err := webhook.ReadBody(request(nil, &endless{}))
	var large *webhook.BodyTooLargeError
	if err = fmt.Errorf("receiving: %w", err); !errors.As(err, &large) || large.Limit != 1048576 {
		t.Errorf("%v, limit %v", err, large)
	}
	if got := webhook.StatusCode(err); got != http.StatusRequestEntityTooLarge {
		t.Errorf("StatusCode = %d", got)
	}
	r := request(nil, &endless{})
	r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 1000)
	if _, err = webhook.ReadBody(r); !errors.As(err, &large) || large.Limit != 1000 {
		t.Errorf("under http.MaxBytesReader: %v", err)
	}
	v := newVerifier(t, webhook.Hex, newSecret(webhook.Hex), webhook.WithMaxBodyBytes(7))
	if _, err = v.Receive(request(nil, &endless{})); !errors.As(err, &large) || large.Limit != 7 {
		t.Errorf("with a cap of 7: %v", err)
	}
}

// W6 and W7, as far as the reader's errors go; TestW6CutShort and TestW7Silence send them over a connection.
func TestBodyFaults(t *testing.T) {
	cases := map[string]struct {
		cause, want error
		status      int
	}{
		"cut short": {io.ErrUnexpectedEOF, webhook.ErrBodyUnreadable, http.StatusBadRequest},
		"broken":    {errors.New("malformed chunked encoding"), webhook.ErrBodyUnreadable, http.StatusBadRequest},
		"too slow":  {os.ErrDeadlineExceeded, webhook.ErrBodyTimeout, http.StatusRequestTimeout},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			src := io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(c.cause))
			body, err := webhook.ReadBody(request(nil, src))
			if !errors.Is(err, c.want) || !errors.Is(err, c.cause) || body != nil {
				t.Errorf("ReadBody = %q, %v, want no bytes and %v", body, err, c.want)
			}
			if got := webhook.StatusCode(err); got != c.status {
				t.Errorf("StatusCode = %d, want %d", got, c.status)
			}
		})
	}
}

// W8: no body is an empty one.
func TestW8NilBody(t *testing.T) {
	body, err := webhook.ReadBody(&http.Request{})
	if err != nil || len(body) != 0 {
		t.Errorf("ReadBody = %q, %v", body, err)
	}
	secret := newSecret(webhook.Hex)
	v := newVerifier(t, webhook.Hex, secret)
	r := &http.Request{Header: sign(t, webhook.Hex, secret, nil)}
	if _, err := v.Receive(r); err != nil {
		t.Errorf("Receive: %v", err)
	}
	if s, err := v.Stream(r); err != nil {
		t.Errorf("Stream: %v", err)
	} else if err := errors.Join(iotest.TestReader(s, nil), s.Close()); err != nil {
		t.Errorf("Stream: %v", err)
	}
}
