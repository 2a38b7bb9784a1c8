package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
	"github.com/openlup/pgrail/webhooktest"
)

// TestTheVerifierGuardsTheInbox: what does not pass it is answered by contract and gets no further.
func TestTheVerifierGuardsTheInbox(t *testing.T) {
	t.Parallel()
	h := newHook(t, func(c *inbox.Config) {
		c.Draft = func(context.Context, webhook.Delivery) (event.Draft, error) {
			t.Error("Draft was called")
			return event.Draft{}, inbox.ErrIgnored
		}
	})
	request := func(body string) *http.Request {
		return webhooktest.Request{Scheme: h.scheme, Secret: h.secret(), Body: []byte(body)}.New(t, "/")
	}
	forged, eaten := request("{}"), request("{}")
	forged.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	eaten.Body = http.NoBody
	want := map[*http.Request]answer{
		request(strings.Repeat("x", webhook.MaxBodyBytes+1)): {Status: 413, Body: "body too large\n"},
		forged: {Status: 401, Body: "invalid signature\n"},
		eaten:  {Status: 400, Body: "unreadable body\n"},
	}
	for r, want := range want {
		if got := h.serve(r); got.Status != want.Status || got.Body != want.Body {
			t.Errorf("answer %d %q, want %d %q", got.Status, got.Body, want.Status, want.Body)
		}
	}
	if status := h.stalled(t, request("{}")); status != http.StatusRequestTimeout {
		t.Errorf("a body that does not come: %d, want 408", status)
	}
	h.expect(t, once())
}

// stalled sends the head of a request to a server and no body.
func (h hook) stalled(t *testing.T, r *http.Request) int {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nX-Hub-Signature-256: %s\r\n\r\n",
		r.ContentLength, r.Header.Get("X-Hub-Signature-256"))
	reply, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	var status int
	if _, err := fmt.Sscanf(string(reply), "HTTP/1.1 %d", &status); err != nil {
		t.Fatalf("%q: %v", reply, err)
	}
	return status
}

func TestStatusCode(t *testing.T) {
	server := func(code string) error { return fmt.Errorf("x: %w", &pgconn.PgError{Code: code}) }
	ours := func(op string, err error) error { return fmt.Errorf("x: %w", &inbox.Error{Op: op, Err: err}) }
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, 200},
		{"ignored", fmt.Errorf("x: %w", inbox.ErrIgnored), 200},
		{"refused", &inbox.RefusedError{}, 422},
		{"refused and away", errors.Join(&inbox.RefusedError{Status: 400}, context.DeadlineExceeded), 400},
		{"connection failure", server("08006"), 503},
		{"read-only after a failover", server("25006"), 503},
		{"transaction misused", server("25P02"), 500},
		{"serialization failure", server("40001"), 503},
		{"too many connections", server("53300"), 503},
		{"lock timeout", server("55P03"), 503},
		{"shutdown", server("57P01"), 503},
		{"statement timeout", server("57014"), 503},
		{"disk", server("58030"), 503},
		{"wrong password", server("28P01"), 500},
		{"no such function", server("42883"), 500},
		{"constraint", server("23505"), 500},
		{"no code", server(""), 500},
		{"deadline", context.DeadlineExceeded, 503},
		{"sender gone", context.Canceled, 503},
		{"cut connection", &net.OpError{Op: "read", Err: io.EOF}, 503},
		{"downstream away", event.Unavailable(errors.New("y")), 503},
		{"anything else", errors.New("y"), 500},
		{"ours: the server has not answered", ours("transaction", io.ErrUnexpectedEOF), 503},
		{"ours: the server has", ours("record", server("42883")), 500},
		{"ours: draft", ours("draft", errors.New("y")), 500},
		{"ours: draft, database away", ours("draft", &pgconn.ConnectError{}), 503},
		{"ours: invalid draft", ours("enqueue", outbox.ErrInvalid), 500},
	}
	for _, test := range tests {
		if got := inbox.StatusCode(test.err); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// TestAnswersTellNoSecrets, whichever error of the application's transaction is answered: what the server says of a
// value stays out of the log.
func TestAnswersTellNoSecrets(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	for _, err := range []error{
		&pgconn.PgError{Code: "22P02", Message: `invalid input syntax for type integer: "hunter2"`},
		&pgconn.PgError{Code: "23505", Message: "duplicate", Detail: "Key (note)=(hunter2) already exists."},
		decodeError(),
	} {
		h.Answer(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil), fmt.Errorf("orders: %w", err))
	}
	for _, want := range []string{"SQLSTATE 22P02", "SQLSTATE 23505", "cannot hold a number"} {
		if !strings.Contains(h.log.String(), want) {
			t.Errorf("log lacks %q: %s", want, h.log)
		}
	}
	for _, hidden := range []string{"hunter2", "1e400"} {
		if strings.Contains(h.log.String(), hidden) {
			t.Errorf("log has %q: %s", hidden, h.log)
		}
	}
}
