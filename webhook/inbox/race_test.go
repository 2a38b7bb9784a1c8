package inbox_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/webhook"
	"github.com/openlup/pgrail/webhook/inbox"
	"github.com/openlup/pgrail/webhooktest"
)

// connections for several deliveries at once.
func connections(n int32) pgtest.Option {
	return pgtest.PoolConfig(func(c *pgxpool.Config) { c.MaxConns = n })
}

// together delivers one body several times at the same moment.
func (h hook) together(t *testing.T, times int, body string) []answer {
	t.Helper()
	var start, done sync.WaitGroup
	start.Add(1)
	answers := make([]answer, times)
	for i := range times {
		r := webhooktest.Request{Scheme: h.scheme, Secret: h.secret(), Body: []byte(body), ID: "msg_1"}.New(t, "/")
		done.Go(func() {
			start.Wait()
			answers[i] = h.serve(r)
		})
	}
	start.Done()
	done.Wait()
	return answers
}

// TestDeliveriesAtOnce: whichever of them comes first, all have the same answer, and there is one event.
func TestDeliveriesAtOnce(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil, connections(4))
	var bodies []string
	for round := range 100 {
		body := report()
		bodies = append(bodies, body)
		if diff := cmp.Diff([]answer{ok, ok, ok, ok}, h.together(t, 4, body)); diff != "" {
			t.Fatalf("round %d: answers (-want +got):\n%s", round, diff)
		}
	}
	h.expect(t, once(bodies...))
}

// TestFailuresAtOnce: of four deliveries at once two fail in Draft, whichever they are; the others are not harmed, and
// while all fail nothing is written.
func TestFailuresAtOnce(t *testing.T) {
	t.Parallel()
	var calls, failing atomic.Int32
	h := newHook(t, func(c *inbox.Config) {
		c.Draft = func(ctx context.Context, d webhook.Delivery) (event.Draft, error) {
			if calls.Add(1)%4 < failing.Load() {
				return event.Draft{}, errors.New("no")
			}
			return draftPayment(ctx, d)
		}
	}, connections(4))
	for round := range 100 {
		before, body := h.written(t), report()
		failing.Store(4)
		h.expectFailed(t, round, 4, h.together(t, 4, body))
		h.expect(t, before)
		failing.Store(2)
		h.expectFailed(t, round, 2, h.together(t, 4, body))
		after := h.written(t)
		if len(after.Messages) != round+1 || len(after.Events) != round+1 {
			t.Fatalf("round %d: %d messages and %d events", round, len(after.Messages), len(after.Events))
		}
	}
}

func (h hook) expectFailed(t *testing.T, round, want int, answers []answer) {
	t.Helper()
	count := map[int]int{}
	for _, a := range answers {
		count[a.Status]++
	}
	if count[http.StatusInternalServerError] != want || count[http.StatusOK] != len(answers)-want {
		t.Fatalf("round %d: status %v, want %d times 500 and else 200", round, count, want)
	}
}

// TestTheSecondWaitsForTheFirst: its answer is the same whether the first one commits or not, and comes after that.
func TestTheSecondWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"commit": true, "rollback": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t, nil)
			body := report()
			first := h.begin(t)
			if receipt, err := h.Record(t.Context(), first, verified(body)); err != nil || receipt.Outcome != inbox.Recorded {
				t.Fatalf("first: %+v, %v", receipt, err)
			}
			second := make(chan answer, 1)
			go func() { second <- h.deliver(t, body) }()
			h.untilBlocked(t)
			end := first.Rollback
			if commits {
				end = first.Commit
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			h.expectAnswer(t, ok, <-second)
			h.expect(t, once(body))
		})
	}
}

// TestTheWaitIsBounded, by the server and by Config.Timeout; the sender may try again.
func TestTheWaitIsBounded(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	hasty := h.with(t, func(c *inbox.Config) { c.Timeout = 50 * time.Millisecond })
	body := report()
	first := h.begin(t)
	if _, err := h.Record(t.Context(), first, verified(body)); err != nil {
		t.Fatal(err)
	}
	hasty.checkFailure(t, hasty.deliver(t, body), 503, "temporarily unavailable", "deadline exceeded")
	h.exec(t, `ALTER FUNCTION public.webhook_inbox_record(text, text) SET lock_timeout = '50ms'`)
	h.checkFailure(t, h.deliver(t, body), 503, "temporarily unavailable", "record: outbox: transaction must be retried")
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.expectAnswer(t, ok, h.deliver(t, body))
	h.expect(t, once(body))
}
