package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Handlers may say anything, secrets too: what they return or panic with is stored with the event and logged at no level.
func TestLogHoldsNothingThatHandlersSay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := errors.New("hunter2")
	ends := []error{secret, event.Discard(secret), event.Snooze(time.Hour, secret), event.RetryAfter(time.Hour, secret), event.Unavailable(secret)}
	for n := range len(ends) + 1 {
		r.enqueue(draft(typeA, n))
	}
	w := r.work(register(typeA, func(_ context.Context, e event.Event[payload]) error {
		if e.Payload.N == len(ends) {
			panic(secret)
		}
		return ends[e.Payload.N]
	}), outbox.Config{})
	r.until(`(select count(*) = 6 from public.outbox_events where error like '%hunter2%')`)
	if r.check(w.stop(t)); w.log.has("hunter2") || !w.log.has("event failed") || !w.log.has("event discarded") || !w.log.has("event snoozed") {
		t.Errorf("the log: %s", w.log)
	}
}
