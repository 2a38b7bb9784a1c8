package outbox_test

import (
	"context"
	"testing"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// A row that an operator has locked costs no other event its outcome, and gets its own once it is free.
func TestLockedRowHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var handlers outbox.Handlers
	begun, release := make(chan struct{}, 20), make(chan struct{})
	handle(&handlers, typeA, func(ctx context.Context, _ event.Event[payload]) error {
		begun <- struct{}{}
		<-release
		return nil
	})
	var drafts []event.Draft
	for n := range 20 {
		drafts = append(drafts, draft(typeA, n))
	}
	ids := r.enqueue(drafts...)
	w := r.work(&handlers, outbox.Config{})
	for range ids {
		receive(t, begun)
	}
	operator, err := r.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Exec(t.Context(), `select from public.outbox_events where id = $1::uuid for update`, ids[7]); err != nil {
		t.Fatal(err)
	}
	close(release)
	r.until(`(select count(*) = 19 from public.outbox_events where status = 'processed')`)
	r.enqueue(draft(typeA, 100))
	r.until(`(select count(*) = 20 from public.outbox_events where status = 'processed')`)
	if err := operator.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.done()
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
}

// D6: a producer's key that differs from the rail's by case alone means nothing to the rail.
func TestD6_MetadataKeysAreComparedToTheLetter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var handlers outbox.Handlers
	handle(&handlers, typeA, func(context.Context, event.Event[payload]) error { return nil })
	r.enqueue(draft(typeA, 1).WithMetadata("claimtoken", 5), draft(typeA, 2).WithMetadata("CLAIMTOKEN", "x"), draft(typeA, 3))
	w := r.work(&handlers, outbox.Config{})
	r.done()
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
}
