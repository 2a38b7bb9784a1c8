package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	internal "github.com/openlup/pgrail/internal/outbox"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// A middleware decides: an error that it swallows is a success, and one that it adds after the commit changes nothing.
func TestMiddlewareDecides(t *testing.T) {
	t.Parallel()
	r := newEffectsRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 2))
	h := inTx(func(ctx context.Context, tx tx, e event.Event[payload]) error { return errors.New("swallowed") })
	handleTx(h, typeB, effect)
	h.Use(func(next event.Handler) event.Handler {
		return func(ctx context.Context, e event.Envelope) error {
			if err := next(ctx, e); err == nil {
				return errors.New("too late")
			}
			return nil
		}
	})
	r.work(h, outbox.Config{})
	r.done()
	if got := value[string](r, `select string_agg(status || ' ' || attempts, ', ') from public.outbox_events`); got != "processed 1, processed 1" {
		t.Error(got)
	}
	if n := value[int](r, `select count(*) from public.effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// Every error a handler can end with, and what becomes of the event.
func TestOutcomesOfErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	day := 24 * time.Hour
	type result = internal.Result
	for name, c := range map[string]struct {
		err  error
		want result
	}{
		"nil":                  {nil, result{Outcome: internal.Processed}},
		"any":                  {cause, result{Outcome: internal.Retry, Delay: -1}},
		"discard":              {event.Discard(cause), result{Outcome: internal.Discard, Delay: -1}},
		"wrapped discard":      {fmt.Errorf("x: %w", event.Discard(cause)), result{Outcome: internal.Discard, Delay: -1}},
		"undecodable":          {fmt.Errorf("x: %w", event.ErrUndecodable), result{Outcome: internal.Discard, Reason: "undecodable", Delay: -1}},
		"snooze":               {event.Snooze(day, cause), result{Outcome: internal.Snooze, Delay: day}},
		"snooze by default":    {event.Snooze(0, cause), result{Outcome: internal.Snooze, Delay: -1}},
		"snooze for no time":   {event.Snooze(-1, cause), result{Outcome: internal.Snooze, Delay: -1}},
		"retry after":          {event.RetryAfter(day, cause), result{Outcome: internal.Retry, Delay: day}},
		"retry at once":        {event.RetryAfter(0, cause), result{Outcome: internal.Retry}},
		"retry in the past":    {event.RetryAfter(-day, cause), result{Outcome: internal.Retry}},
		"unavailable":          {event.Unavailable(cause), result{Outcome: internal.Snooze, Delay: -1, Unavailable: true}},
		"refused":              {fmt.Errorf("x: %w", syscall.ECONNREFUSED), result{Outcome: internal.Snooze, Delay: -1, Unavailable: true}},
		"deadline":             {context.DeadlineExceeded, result{Outcome: internal.Snooze, Delay: -1, Unavailable: true}},
		"cancelled":            {context.Canceled, result{Outcome: internal.Retry, Delay: -1}},
		"purpose before looks": {event.RetryAfter(day, context.DeadlineExceeded), result{Outcome: internal.Retry, Delay: day}},
		"discard before looks": {event.Discard(syscall.ECONNREFUSED), result{Outcome: internal.Discard, Delay: -1}},
		"joined":               {errors.Join(io.EOF, event.Snooze(day, nil)), result{Outcome: internal.Snooze, Delay: day}},
	} {
		got := outbox.ToResult(c.err)
		if c.err != nil && got.Error != c.err.Error() {
			t.Errorf("%s: the text is %q", name, got.Error)
		}
		got.Error = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Delays beyond what the table takes are cut, not wrapped round.
func TestAbsurdDelays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(draft(typeA, 1), draft(typeB, 2))
	h := register(typeA, func(context.Context, event.Event[payload]) error { return event.RetryAfter(1<<63-1, nil) })
	outbox.Handle(h, typeB, func(context.Context, event.Event[payload]) error { return event.Snooze(1<<63-1, nil) })
	r.work(h, outbox.Config{})
	r.until(`(select count(*) = 2 from public.outbox_events where status = 'failed'
		and available_at between clock_timestamp() + interval '23 hours 59 minutes' and clock_timestamp() + interval '24 hours')`)
}

// Case D5: an error text that Postgres would not take is cleaned, so that the failure is recorded all the same.
func TestD5_HandlersWithOddErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	texts := []string{"nul \x00", "bad \xff utf8", strings.Repeat("long ü", 100_000), "", "quote ' \\ \""}
	var drafts []event.Draft
	for n := range texts {
		drafts = append(drafts, draft(typeA, n))
	}
	r.enqueue(drafts...)
	w := r.work(register(typeA, func(_ context.Context, e event.Event[payload]) error { return errors.New(texts[e.Payload.N]) }), outbox.Config{})
	r.until(`(select count(*) = 5 from public.outbox_events where status = 'failed' and attempts = 1)`)
	if n := value[int](r, `select max(length(error)) from public.outbox_events`); n != 2000 {
		t.Errorf("the longest has %d characters", n)
	}
	r.check(w.stop(t))
	if w.log.has("cannot be stored") {
		t.Errorf("%s", w.log)
	}
}
