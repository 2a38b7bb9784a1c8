package inbox_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
	"github.com/openlup/pgrail/webhooktest"
)

var presets = []webhook.Scheme{webhook.Hex, webhook.GitHub, webhook.Shopify, webhook.Slack, webhook.Stripe, webhook.Standard}

// TestW19RepeatsWriteNothing is case W19 for every preset: an unsigned header, and a time of sending that the sender has
// renewed, make no other message of it; another body or id does.
func TestW19RepeatsWriteNothing(t *testing.T) {
	for _, scheme := range presets {
		t.Run(scheme.Name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t, nil)
			h.scheme = scheme
			h = h.with(t, nil)
			body, now := report(), time.Now()
			send := func(id, body string, at time.Time, unsigned string) {
				r := webhooktest.Request{Scheme: scheme, Secret: h.secret(), Body: []byte(body), ID: id, Time: at}.New(t, "/")
				r.Header.Set("X-GitHub-Delivery", unsigned)
				h.expectAnswer(t, ok, h.serve(r))
			}
			send("msg_1", body, now, "first")
			first := h.written(t)
			send("msg_1", body, now, "second")
			send("msg_1", body, now.Add(-time.Minute), "third")
			h.expect(t, first)
			send("msg_2", report(), now, "first")
			if got := h.written(t); len(first.Events) != 1 || len(got.Messages) != 2 || len(got.Events) != 2 {
				t.Errorf("after two messages: %v, after one: %v", got, first)
			}
		})
	}
}

// TestTheEventIsTheDraft: its type, aggregate and payload are Draft's, and its key is the message's unless Draft has one.
func TestTheEventIsTheDraft(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	own := h.with(t, func(c *inbox.Config) {
		c.Draft = func(ctx context.Context, d webhook.Delivery) (event.Draft, error) {
			draft, err := draftPayment(ctx, d)
			draft.IdempotencyKey = "own"
			return draft, err
		}
	})
	const body = `{"order":"00000000-0000-4000-8000-000000000001","note":"a"}`
	const other = `{"order":"00000000-0000-4000-8000-000000000002","note":"b"}`
	h.expectAnswer(t, ok, h.deliver(t, body))
	own.expectAnswer(t, ok, own.deliver(t, other))
	got := h.list(t, `SELECT concat_ws(' ', event_type, aggregate_type, aggregate_id, payload, idempotency_key)
		FROM public.outbox_events ORDER BY created_at`)
	want := []string{
		`order.paid order 00000000-0000-4000-8000-000000000001 {"note": "a", "order": "00000000-0000-4000-8000-000000000001"} ` +
			once(body).Events[0],
		`order.paid order 00000000-0000-4000-8000-000000000002 {"note": "b", "order": "00000000-0000-4000-8000-000000000002"} own`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if own.deliver(t, report()); !strings.Contains(own.log.String(), "level=WARN msg=\"webhook taken in, but another event has its event's key\"") {
		t.Errorf("an event that was swallowed: no warning in %s", own.log)
	}
}

// TestSourcesAreApart: the same message from two senders is two messages.
func TestSourcesAreApart(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	other := h.with(t, func(c *inbox.Config) { c.Source = "bank" })
	body := report()
	h.expectAnswer(t, ok, h.deliver(t, body))
	other.expectAnswer(t, ok, other.deliver(t, body))
	want := once(body, body)
	want.Messages[1] = strings.Replace(want.Messages[1], "shop/", "bank/", 1)
	h.expect(t, want)
}

var reference = regexp.MustCompile(`^([a-z ]+) \(reference ([A-Z2-7]{26})\)\n$`)

// checkFailure expects a status with its fixed text and a reference that the log has beside the reason.
func (h hook) checkFailure(t *testing.T, got answer, status int, text, reason string) {
	t.Helper()
	parts := reference.FindStringSubmatch(got.Body)
	if got.Status != status || parts == nil || parts[1] != text {
		t.Fatalf("answer %d %q: want %d %q and a reference\nlog: %s", got.Status, got.Body, status, text, h.log)
	}
	if (got.Header.Get("Retry-After") != "") != (status == http.StatusServiceUnavailable) {
		t.Errorf("status %d with Retry-After %q", status, got.Header.Get("Retry-After"))
	}
	last := h.log.String()[strings.LastIndex(strings.TrimSpace(h.log.String()), "\n")+1:]
	if !strings.Contains(last, "reference="+parts[2]) || !strings.Contains(last, reason) {
		t.Errorf("log %q: want reference %s and reason %q", last, parts[2], reason)
	}
	for _, hidden := range []string{secret, "hunter2", "postgres://"} {
		if strings.Contains(h.log.String()+got.Body, hidden) {
			t.Errorf("%q stands in the log or the answer: %s%s", hidden, h.log, got.Body)
		}
	}
}

// TestDraftDecides: whatever Draft does not want leaves nothing behind, and the same delivery is welcome later.
func TestDraftDecides(t *testing.T) {
	t.Parallel()
	refuse := func(status int) error { return &inbox.RefusedError{Status: status, Reason: "no order"} }
	tests := []struct {
		name         string
		err          error
		status       int
		text, reason string
	}{
		{"refused", refuse(0), 422, "delivery refused", "no order"},
		{"refused for good", refuse(410), 410, "delivery refused", "no order"},
		{"refused and wrapped", errors.Join(refuse(400)), 400, "delivery refused", "no order"},
		{"refused with a success", refuse(200), 500, "delivery failed", "no order"},
		{"refused with a failure", refuse(500), 500, "delivery failed", "no order"},
		{"failed", errors.New("no such tenant"), 500, "delivery failed", "draft: no such tenant"},
		{"downstream away", event.Unavailable(errors.New("tenants")), 503, "temporarily unavailable", "draft: "},
		{"downstream slow", context.DeadlineExceeded, 503, "temporarily unavailable", "draft: "},
		{"a decoder's error", decodeError(), 500, "delivery failed", "draft: JSON field \\\"order\\\" cannot hold a number"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t, nil)
			unwilling := h.with(t, func(c *inbox.Config) {
				c.Draft = func(context.Context, webhook.Delivery) (event.Draft, error) { return event.Draft{}, test.err }
			})
			body := report()
			unwilling.checkFailure(t, unwilling.deliver(t, body), test.status, test.text, test.reason)
			h.expect(t, once())
			h.expectAnswer(t, ok, h.deliver(t, body))
			h.expect(t, once(body))
			unwilling.checkFailure(t, unwilling.deliver(t, body), test.status, test.text, test.reason) // as before
		})
	}
}

// TestIgnoredIsAnsweredAndForgotten: an application that takes an interest later may have it delivered again.
func TestIgnoredIsAnsweredAndForgotten(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	bored := h.with(t, func(c *inbox.Config) {
		c.Draft = func(context.Context, webhook.Delivery) (event.Draft, error) { return event.Draft{}, inbox.ErrIgnored }
	})
	body := report()
	for range 2 {
		bored.expectAnswer(t, ok, bored.deliver(t, body))
		h.expect(t, once())
	}
	h.expectAnswer(t, ok, h.deliver(t, body))
	bored.expectAnswer(t, ok, bored.deliver(t, body))
	h.expect(t, once(body))
}

// TestFailuresInTheTransaction: a failure at any step of it leaves nothing, and the next delivery is the first.
func TestFailuresInTheTransaction(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	h.exec(t, `CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'no'; END $$`)
	for _, trigger := range []string{
		`TRIGGER fail BEFORE INSERT ON public.webhook_inbox_entries`,
		`TRIGGER fail AFTER INSERT ON public.webhook_inbox_entries`,
		`TRIGGER fail BEFORE INSERT ON public.outbox_events`,
		`TRIGGER fail AFTER INSERT ON public.outbox_events`,
		`CONSTRAINT TRIGGER fail AFTER INSERT ON public.outbox_events DEFERRABLE INITIALLY DEFERRED`,
	} {
		before := h.written(t)
		body := report()
		h.exec(t, `CREATE `+trigger+` FOR EACH ROW EXECUTE FUNCTION public.fail()`)
		h.checkFailure(t, h.deliver(t, body), 500, "delivery failed", "SQLSTATE P0001")
		h.expect(t, before)
		h.exec(t, `DROP TRIGGER fail ON `+h.list(t, `SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'fail'`)[0])
		h.expectAnswer(t, ok, h.deliver(t, body))
		h.expect(t, written{append(before.Messages, once(body).Messages...), append(before.Events, once(body).Events...)})
	}
}

// TestADraftThatCannotBeWritten names the field, and nothing of it.
func TestADraftThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	h := newHook(t, func(c *inbox.Config) {
		c.Draft = func(context.Context, webhook.Delivery) (event.Draft, error) {
			return orderPaid.New("", [16]byte{}, "hunter2", payment{}), nil
		}
	})
	h.checkFailure(t, h.deliver(t, "{}"), 500, "delivery failed", "AggregateType")
	h.expect(t, once())
}
