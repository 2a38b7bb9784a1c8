package inbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
	"github.com/openlup/pgrail/webhooktest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// payment is what the sender of the tests reports.
type payment struct {
	Order uuid.UUID `json:"order"`
	Note  string    `json:"note"`
}

var orderPaid = event.MustDefine[payment]("order.paid")

// secret stands in every signature, and must not stand in any log.
const secret = "correct horse battery staple"

func draftPayment(_ context.Context, d webhook.Delivery) (event.Draft, error) {
	p, err := inbox.Decode[payment](d)
	return orderPaid.New("order", p.Order, "", p), err
}

// hook is an inbox on a database of its own, and its sender.
type hook struct {
	*pgtest.DB
	*inbox.Inbox
	scheme webhook.Scheme
	log    *bytes.Buffer
}

func newHook(t *testing.T, change func(*inbox.Config), options ...pgtest.Option) hook {
	t.Helper()
	return hook{DB: pgtest.New(t, options...), scheme: webhook.GitHub}.with(t, change)
}

// with makes another inbox of the same source on the same database.
func (h hook) with(t *testing.T, change func(*inbox.Config)) hook {
	t.Helper()
	return h.on(t, h.Pool, change)
}

// on makes it over another pool.
func (h hook) on(t *testing.T, pool inbox.Pool, change func(*inbox.Config)) hook {
	t.Helper()
	h.log = new(bytes.Buffer)
	logger := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	config := inbox.Config{Source: "shop", Draft: draftPayment, Logger: logger}
	if change != nil {
		change(&config)
	}
	verifier, err := webhook.NewVerifier(h.scheme, []webhook.Secret{h.secret()},
		webhook.WithLogger(logger), webhook.WithReadTimeout(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if h.Inbox, err = inbox.New(pool, verifier, config); err != nil {
		t.Fatal(err)
	}
	return h
}

// secret is written as the scheme wants it.
func (h hook) secret() webhook.Secret {
	if h.scheme.SecretPrefix != "" {
		return webhook.SecretText("whsec_Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ==")
	}
	return webhook.SecretText(secret)
}

// answer is all that a sender sees.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

var ok = answer{Status: http.StatusOK, Header: http.Header{}}

func (h hook) deliver(t *testing.T, body string) answer {
	t.Helper()
	return h.serve(webhooktest.Request{Scheme: h.scheme, Secret: h.secret(), Body: []byte(body), ID: "msg_1"}.New(t, "/"))
}

func (h hook) serve(r *http.Request) answer { return serve(h, r) }

func serve(handler http.Handler, r *http.Request) answer {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// report is a body that no other call has made.
func report() string { return `{"order":"` + uuid.NewString() + `","note":"hunter2"}` }

func (h hook) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := h.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// list reads one column of text.
func (h hook) list(t *testing.T, sql string, args ...any) []string {
	t.Helper()
	rows, err := h.Pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return texts
}

// written is what the database has of deliveries: each message, and the key of each event.
type written struct{ Messages, Events []string }

func (h hook) written(t *testing.T) written {
	t.Helper()
	return written{
		Messages: h.list(t, `SELECT source || '/' || encode(key, 'hex') FROM public.webhook_inbox_entries ORDER BY received_at`),
		Events:   h.list(t, `SELECT idempotency_key FROM public.outbox_events ORDER BY created_at`),
	}
}

// once is the database after any number of deliveries of each body.
func once(bodies ...string) written {
	keys := []string{}
	for _, body := range bodies {
		keys = append(keys, "shop/"+webhook.Delivery{Body: []byte(body)}.Key())
	}
	return written{keys, keys}
}

func (h hook) expect(t *testing.T, want written) {
	t.Helper()
	if diff := cmp.Diff(want, h.written(t)); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

func (h hook) expectAnswer(t *testing.T, want, got answer) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s\nlog: %s", diff, h.log)
	}
}
