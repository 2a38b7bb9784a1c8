package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openlup/pgrail/webhook"
)

// records passes on each log record as it is written, to be waited for.
type records chan map[string]any

func (c records) Write(line []byte) (int, error) {
	record := map[string]any{}
	if err := json.Unmarshal(line, &record); err != nil {
		return 0, err
	}
	c <- record
	return len(line), nil
}

// server runs the middleware over TCP with the bare scheme; its handler answers with the body it was given.
type server struct {
	*httptest.Server
	secret string
	logged records
}

func newServer(t *testing.T, timeout time.Duration) server {
	t.Helper()
	s := server{secret: newSecret(webhook.Hex), logged: make(records, 10)}
	log := slog.New(slog.NewJSONHandler(s.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	v := newVerifier(t, webhook.Hex, s.secret, webhook.WithReadTimeout(timeout), webhook.WithLogger(log))
	s.Server = httptest.NewUnstartedServer(v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	})))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// plain starts the same server without TLS, for tests that write the request by hand.
func newPlainServer(t *testing.T, timeout time.Duration) server {
	t.Helper()
	s := newServer(t, timeout)
	plain := httptest.NewServer(s.Config.Handler)
	t.Cleanup(plain.Close)
	s.Server = plain
	return s
}

// conn is a connection on which a test writes its request byte by byte.
type conn struct {
	*net.TCPConn
	t *testing.T
}

func (s server) dial(t *testing.T) conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	// No test may hang: a server that never answers fails it instead.
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return conn{c.(*net.TCPConn), t}
}

func (c conn) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, strings.ReplaceAll(format, "\n", "\r\n"), args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c conn) answer() (status int, body string) {
	c.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func (s server) refused(t *testing.T, level string, status int, reason string) {
	t.Helper()
	select {
	case r := <-s.logged:
		if r["level"] != level || r["status"] != float64(status) || !strings.Contains(fmt.Sprint(r["reason"]), reason) || r["scheme"] != "hex" {
			t.Errorf("logged %v, want level %s, status %d, reason %q", r, level, status, reason)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing was logged")
	}
}

// W2 over a connection: the answer comes although the client never stops, and the connection ends.
func TestW2EndlessOverTCP(t *testing.T) {
	s := newPlainServer(t, time.Minute)
	c := s.dial(t)
	c.send("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n")
	go func() {
		chunk := []byte("10000\r\n" + strings.Repeat("x", 0x10000) + "\r\n")
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}()
	if status, body := c.answer(); status != http.StatusRequestEntityTooLarge || body != "body too large" {
		t.Errorf("answer %d %q", status, body)
	}
	s.refused(t, "INFO", 413, "1048576 bytes")
}

// W3 over a connection: too much is declared and nothing sent, and the answer does not wait.
func TestW3DeclaredOverTCP(t *testing.T) {
	s := newPlainServer(t, time.Minute)
	c := s.dial(t)
	c.send("POST / HTTP/1.1\nHost: a\nContent-Length: %d\n\n", webhook.MaxBodyBytes+1)
	if status, _ := c.answer(); status != http.StatusRequestEntityTooLarge {
		t.Errorf("answer %d", status)
	}
}

// W3 without a declared length: the answer does not wait for what the client has left to send either.
func TestW3ChunkedOverTCP(t *testing.T) {
	s := newPlainServer(t, time.Minute)
	c := s.dial(t)
	c.send("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n%x\n", 2*webhook.MaxBodyBytes)
	if _, err := c.Write(make([]byte, webhook.MaxBodyBytes+1)); err != nil {
		t.Fatal(err)
	}
	if status, _ := c.answer(); status != http.StatusRequestEntityTooLarge {
		t.Errorf("answer %d", status)
	}
}

// W6: the client is at fault, in the answer as in the log, and the handler is not called.
func TestW6CutShort(t *testing.T) {
	for _, request := range []string{"Content-Length: 10\n\n12345", "Transfer-Encoding: chunked\n\na\n12345", "Transfer-Encoding: chunked\n\n5\n12345\n"} {
		s := newPlainServer(t, time.Minute)
		c := s.dial(t)
		c.send("POST / HTTP/1.1\nHost: a\nX-Signature: %s\n"+request, plainHex(s.secret, "12345"))
		c.CloseWrite()
		if status, body := c.answer(); status != http.StatusBadRequest || body != "unreadable body" {
			t.Errorf("%q: answer %d %q", request, status, body)
		}
		s.refused(t, "INFO", 400, "unexpected EOF")
	}
}

// A broken transfer coding is the client's fault too.
func TestBrokenChunks(t *testing.T) {
	s := newPlainServer(t, time.Minute)
	c := s.dial(t)
	c.send("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nxyz\n12345\n0\n\n")
	if status, _ := c.answer(); status != http.StatusBadRequest {
		t.Errorf("answer %d", status)
	}
	s.refused(t, "INFO", 400, "unreadable")
}

// A malformed trailer is refused without repeating in the log what the client wrote.
func TestBrokenTrailer(t *testing.T) {
	s := newPlainServer(t, time.Minute)
	c := s.dial(t)
	c.send("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n1\na\n0\na private line without a colon\n\n")
	if status, _ := c.answer(); status != http.StatusBadRequest {
		t.Errorf("answer %d", status)
	}
	if r := <-s.logged; strings.Contains(fmt.Sprint(r), "private") || !strings.Contains(fmt.Sprint(r["reason"]), "malformed trailer") {
		t.Errorf("logged %v", r)
	}
}

// W7: two bytes of ten, then silence.
func TestW7Silence(t *testing.T) {
	s := newPlainServer(t, 50*time.Millisecond)
	c := s.dial(t)
	c.send("POST / HTTP/1.1\nHost: a\nContent-Length: 10\n\n12")
	if status, body := c.answer(); status != http.StatusRequestTimeout || body != "body not received in time" {
		t.Errorf("answer %d %q", status, body)
	}
	s.refused(t, "INFO", 408, "timeout")
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the answer: %d bytes, %v, want the connection closed", n, err)
	}
}

// W7 on HTTP/2, where the deadline is the stream's.
func TestW7SilenceHTTP2(t *testing.T) {
	s := newServer(t, 50*time.Millisecond)
	body, feed := io.Pipe()
	defer feed.Close()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, body)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("HTTP/%d, answer %d", resp.ProtoMajor, resp.StatusCode)
	}
	s.refused(t, "INFO", 408, "timeout")
}

// Slow is fine while the whole body comes in time, and the exact bytes arrive, chunked or not.
func TestSlowAndChunked(t *testing.T) {
	s := newPlainServer(t, time.Minute)
	want := "{ \"a\" : 1 }\n"
	for _, framing := range []string{"Content-Length: 12\n\n", "Transfer-Encoding: chunked\n\n"} {
		c := s.dial(t)
		c.SetNoDelay(true)
		c.send("POST / HTTP/1.1\nHost: a\nX-Signature: %s\n%s", plainHex(s.secret, want), framing)
		for _, b := range []byte(want) {
			piece := string(b)
			if strings.HasPrefix(framing, "Transfer") {
				piece = "1\r\n" + piece + "\r\n"
			}
			io.WriteString(c, piece)
		}
		if strings.HasPrefix(framing, "Transfer") {
			io.WriteString(c, "0\r\n\r\n")
		}
		if status, body := c.answer(); status != http.StatusOK || body != strings.TrimSpace(want) {
			t.Errorf("%q: answer %d %q", framing, status, body)
		}
	}
}

// A refused signature leaves the connection usable: the body was read whole. W17 too: one public text.
func TestKeepAliveAfterRefusal(t *testing.T) {
	s := newPlainServer(t, time.Minute)
	c := s.dial(t)
	for range 3 {
		c.send("POST / HTTP/1.1\nHost: a\nContent-Length: 2\nX-Signature: %064d\n\n{}", 0)
		if status, body := c.answer(); status != http.StatusUnauthorized || body != "invalid signature" {
			t.Errorf("answer %d %q", status, body)
		}
		s.refused(t, "WARN", 401, "no signature matches")
	}
	c.send("POST / HTTP/1.1\nHost: a\nContent-Length: 2\nX-Signature: %s\n\n{}", plainHex(s.secret, "{}"))
	if status, body := c.answer(); status != http.StatusOK || body != "{}" {
		t.Errorf("answer %d %q", status, body)
	}
}

// The read deadline ends with the body: a handler may take longer without its context being cancelled. A request without
// a body is the harder case, since the server then watches the connection from the start.
func TestDeadlineEndsWithBody(t *testing.T) {
	const timeout = 30 * time.Millisecond
	secret := newSecret(webhook.Hex)
	v := newVerifier(t, webhook.Hex, secret, webhook.WithReadTimeout(timeout))
	ended := make(chan error, 1)
	s := httptest.NewServer(v.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*timeout)
		defer cancel()
		<-ctx.Done()
		ended <- context.Cause(r.Context())
	})))
	defer s.Close()
	for _, body := range []string{"", "{}"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(body))
		r.Header = sign(t, webhook.Hex, secret, []byte(body))
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if err := <-ended; err != nil {
			t.Errorf("body %q: the request's context ended: %v", body, err)
		}
	}
}

// W1 in the middleware: a fault of the server is logged as an error.
func TestW1MiddlewareBlamesTheServer(t *testing.T) {
	logged := make(records, 1)
	v := newVerifier(t, webhook.Hex, "secret", webhook.WithLogger(slog.New(slog.NewJSONHandler(logged, nil))))
	r := bytesRequest(nil, []byte("a=1&b=2"))
	io.Copy(io.Discard, r.Body)
	if w, _ := serve(t, v, r); w.Code != http.StatusBadRequest {
		t.Errorf("answer %d", w.Code)
	}
	if r := <-logged; r["level"] != "ERROR" || !strings.Contains(fmt.Sprint(r["reason"]), "already consumed") {
		t.Errorf("logged %v", r)
	}
}

// A handler behind the middleware can forward the request: body and length are those of the delivery.
func TestForwardedRequest(t *testing.T) {
	secret := newSecret(webhook.Hex)
	body := []byte(`{"a":1}`)
	v := newVerifier(t, webhook.Hex, secret)
	r := request(sign(t, webhook.Hex, secret, body), chunked(0, 1))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
	v.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ContentLength != int64(len(body)) {
			t.Errorf("ContentLength = %d", r.ContentLength)
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
}

func TestFromContextWithout(t *testing.T) {
	if d, ok := webhook.FromContext(t.Context()); ok {
		t.Errorf("a delivery from nowhere: %v", d)
	}
}
