package webhook_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/openlup/pgrail/webhook"
)

// A stream gives out what came, by any size of read, and obeys the contract of readers.
func TestStreamReads(t *testing.T) {
	secret := newSecret(webhook.Hex)
	v := newVerifier(t, webhook.Hex, secret)
	for _, size := range []int{0, 1, 2, 3, 1000, webhook.MaxBodyBytes} {
		body := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		h := sign(t, webhook.Hex, secret, body)
		for name, cut := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "with EOF": iotest.DataErrReader} {
			s, err := v.Stream(request(h, cut(bytes.NewReader(body))))
			if err != nil {
				t.Fatal(err)
			}
			if size > 1000 {
				got, err := io.ReadAll(s)
				if err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d bytes, %s: %d bytes, %v", size, name, len(got), err)
				}
			} else if err := iotest.TestReader(s, body); err != nil {
				t.Errorf("%d bytes, %s: %v", size, name, err)
			}
		}
	}
}

// The last byte of a body that is not proved never comes out, whatever the size of the reads.
func TestStreamHoldsLastByte(t *testing.T) {
	body := "0123456789"
	h := sign(t, webhook.Hex, newSecret(webhook.Hex), []byte(body))
	v := newVerifier(t, webhook.Hex, newSecret(webhook.Hex))
	for size := 1; size <= len(body)+1; size++ {
		for _, src := range []io.Reader{strings.NewReader(body), iotest.DataErrReader(strings.NewReader(body))} {
			s, err := v.Stream(request(h, src))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(&pieces{s, size})
			refusedFor(t, err)
			if want := body[:len(body)-1]; !strings.HasPrefix(want, string(got)) {
				t.Errorf("reads of %d: got %q", size, got)
			}
			if n, again := s.Read(make([]byte, 5)); n != 0 || again.Error() != err.Error() {
				t.Errorf("reads of %d: after the end %d bytes, %v", size, n, again)
			}
		}
	}
}

// The same cap and the same faults as ReadBody, and no last byte after any of them.
func TestStreamFaults(t *testing.T) {
	secret := newSecret(webhook.Hex)
	v := newVerifier(t, webhook.Hex, secret, webhook.WithMaxBodyBytes(10))
	h := sign(t, webhook.Hex, secret, []byte("01234"))
	var large *webhook.BodyTooLargeError

	s, err := v.Stream(request(h, &endless{}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(s); !errors.As(err, &large) || large.Limit != 10 || len(got) >= 10 {
		t.Errorf("endless: %d bytes, %v", len(got), err)
	}
	src := &endless{}
	r := request(h, src)
	r.ContentLength = 11
	if _, err := v.Stream(r); !errors.As(err, &large) || src.given > 0 {
		t.Errorf("declared: %v after %d bytes", err, src.given)
	}
	s, _ = v.Stream(request(h, io.MultiReader(strings.NewReader("01234"), iotest.ErrReader(io.ErrUnexpectedEOF))))
	if got, err := io.ReadAll(s); !errors.Is(err, webhook.ErrBodyUnreadable) || len(got) >= 5 {
		t.Errorf("cut short: %q, %v", got, err)
	}
	r = request(h, strings.NewReader("0123"))
	r.ContentLength = 5
	s, _ = v.Stream(r)
	if got, err := io.ReadAll(s); !errors.Is(err, webhook.ErrBodyConsumed) || len(got) >= 4 {
		t.Errorf("eaten: %q, %v", got, err)
	}
}

// Headers that rule the delivery out are refused without reading.
func TestStreamRefusesHeadersFirst(t *testing.T) {
	src := &endless{}
	_, err := newVerifier(t, webhook.Hex, "secret").Stream(request(nil, src))
	if refusedFor(t, err); src.given != 0 {
		t.Errorf("read %d bytes", src.given)
	}
}

type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return nil
}

func TestStreamClose(t *testing.T) {
	secret := newSecret(webhook.Hex)
	r := bytesRequest(sign(t, webhook.Hex, secret, []byte("ab")), nil)
	body := &closer{Reader: strings.NewReader("ab")}
	r.Body = body
	s, err := newVerifier(t, webhook.Hex, secret).Stream(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || !body.closed {
		t.Errorf("Close: %v, body closed: %v", err, body.closed)
	}
}

// Forwarding with the declared length: an upstream that gets the whole body gets a proved one.
func TestStreamForwarded(t *testing.T) {
	secret := newSecret(webhook.Hex)
	v := newVerifier(t, webhook.Hex, secret)
	whole := make(chan bool, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		whole <- err == nil && len(got) == int(r.ContentLength)
	}))
	defer upstream.Close()
	for _, valid := range []bool{true, false} {
		body := bytes.Repeat([]byte("x"), 100_000)
		h := sign(t, webhook.Hex, secret, body)
		if !valid {
			body[99_999] = 'y'
		}
		s, err := v.Stream(bytesRequest(h, body))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, upstream.URL, s)
		out.ContentLength = int64(len(body))
		resp, err := upstream.Client().Do(out)
		if err == nil {
			resp.Body.Close()
		}
		if valid != (err == nil) || !valid && !errors.Is(err, webhook.ErrInvalidSignature) {
			t.Errorf("valid %v: forwarding gave %v", valid, err)
		}
		if got := <-whole; got != valid {
			t.Errorf("valid %v: the upstream had a whole body: %v", valid, got)
		}
	}
}
