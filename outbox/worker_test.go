package outbox_test

import (
	"context"
	"testing"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

func TestWorkerProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var drafts []event.Draft
	for i := range 300 {
		drafts = append(drafts, draft(typeA, i%100))
	}
	r.enqueue(drafts...)
	var h outbox.Handlers
	handle(&h, typeA, func(context.Context, event.Event[payload]) error { return nil })
	r.work(&h, outbox.Config{})
	r.done()
	if got := value[int](r, `select count(*) from public.outbox_events where status = 'processed' and attempts = 1`); got != 300 {
		t.Errorf("%d of 300 processed at the first attempt", got)
	}
}
