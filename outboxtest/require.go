package outboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// patience bounds what one call of a test asks of the database and of handlers.
const patience = time.Minute

func testContext(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}

// Event is an event as it stands in the table, in values that go-cmp compares.
type Event struct {
	EventType      string
	IdempotencyKey string
	AggregateType  string
	AggregateID    uuid.UUID
	// Payload as encoding/json decodes it into an any.
	Payload any
	// Status is pending, processing, processed, failed or discarded.
	Status   string
	Attempts int
	// Error of the last try that failed; empty for none.
	Error string
}

const readEvents = `SELECT e.event_type, e.idempotency_key, e.aggregate_type, e.aggregate_id, e.payload, e.status,
	e.attempts, coalesce(e.error, '') AS error
FROM public.outbox_events AS e ORDER BY e.created_at, e.id`

// Events returns all events there are, in the order of their creation.
func (r *Rail) Events() []Event {
	r.t.Helper()
	ctx, cancel := testContext(r.t)
	defer cancel()
	rows, err := r.pool.Query(ctx, readEvents)
	if err != nil {
		r.t.Fatalf("outboxtest: read events: %v", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
	if err != nil {
		r.t.Fatalf("outboxtest: read events: %v", err)
	}
	return events
}

// RequireEnqueued wants exactly these events to be there, in this order, whatever became of them since. Delays and metadata
// are not compared.
func (r *Rail) RequireEnqueued(want ...event.Draft) {
	r.t.Helper()
	var drafted []Event
	for i, draft := range want {
		drafted = append(drafted, r.expect(i, draft))
	}
	got := r.Events()
	for i := range got {
		got[i].Status, got[i].Attempts, got[i].Error = "", 0, ""
	}
	if diff := cmp.Diff(drafted, got); diff != "" && len(drafted)+len(got) > 0 {
		r.t.Fatalf("outboxtest: enqueued events (-want +got):\n%s", diff)
	}
}

// expect turns a draft into what should be read back.
func (r *Rail) expect(i int, draft event.Draft) Event {
	r.t.Helper()
	if err := draft.Validate(); err != nil {
		r.t.Fatalf("outboxtest: draft %d: %v", i, err)
	}
	e := Event{EventType: draft.EventType, IdempotencyKey: draft.IdempotencyKey, AggregateType: draft.AggregateType, AggregateID: draft.AggregateID}
	if err := json.Unmarshal(draft.Payload, &e.Payload); err != nil {
		r.t.Fatalf("outboxtest: draft %d: %v", i, err)
	}
	return e
}

// RequireDelivered drains, and wants each of these events to be processed then; there may be others. For one that is not,
// the test is told what it stands at and why it does not move.
func (r *Rail) RequireDelivered(want ...event.Draft) {
	r.t.Helper()
	r.Drain()
	var missing []string
	for i, draft := range want {
		r.expect(i, draft)
		if problem := r.undelivered(draft); problem != "" {
			missing = append(missing, fmt.Sprintf("%s %q: %s", draft.EventType, draft.IdempotencyKey, problem))
		}
	}
	if len(missing) > 0 {
		r.t.Fatalf("outboxtest: not delivered:\n%s", strings.Join(missing, "\n"))
	}
}

// undelivered says why an event is not processed; nothing when it is.
func (r *Rail) undelivered(draft event.Draft) string {
	ctx, cancel := testContext(r.t)
	defer cancel()
	var id uuid.UUID
	var status, stored string
	const find = `SELECT e.id, e.status, coalesce(e.error, '') FROM public.outbox_events AS e
		WHERE e.event_type = $1::text AND e.idempotency_key = $2::text`
	err := r.pool.QueryRow(ctx, find, draft.EventType, draft.IdempotencyKey).Scan(&id, &status, &stored)
	switch {
	case err == pgx.ErrNoRows:
		return "never enqueued"
	case err != nil:
		return err.Error()
	case status == "processed":
		return ""
	}
	why, err := outbox.Explain(ctx, r.pool, id)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s after %d attempts, %s", status, why.Attempts, why.Reason)
	if why.DueIn > 0 {
		text += fmt.Sprintf(", due in %v", why.DueIn.Round(time.Second))
	}
	if why.Blocker != nil {
		text += fmt.Sprintf(", behind a %s that is %s", why.Blocker.EventType, why.Blocker.Status)
	}
	if stored != "" {
		text += ", error: " + stored
	}
	return text
}

// nextDue returns how long until the next event that can be handled here is due, and false when none waits for its time.
func (r *Rail) nextDue() (time.Duration, bool) {
	r.t.Helper()
	ctx, cancel := testContext(r.t)
	defer cancel()
	rows, err := r.pool.Query(ctx, `SELECT e.id FROM public.outbox_events AS e
		WHERE e.status IN ('pending', 'failed', 'processing') AND e.available_at > clock_timestamp() AND e.event_type = ANY ($1::text[])
		ORDER BY e.available_at`, r.types)
	var ids []uuid.UUID
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	}
	for _, id := range ids {
		why, failed := outbox.Explain(ctx, r.pool, id)
		if failed != nil {
			r.t.Fatalf("outboxtest: %v", failed)
		}
		if why != nil && (why.Reason == outbox.ReasonNotDue || why.Reason == outbox.ReasonInFlight) {
			return max(why.DueIn, 0), true
		}
	}
	if err != nil {
		r.t.Fatalf("outboxtest: %v", err)
	}
	return 0, false
}
