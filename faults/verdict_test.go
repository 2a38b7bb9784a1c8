package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// verdict is what the evidence says.
type verdict struct {
	Events, Delivered int
	// Duplicates are deliveries beyond the first; those not explained followed one by a worker that was not killed.
	Duplicates, Unexplained int
	// OrderViolations are deliveries that are neither of the same event as the last of the aggregate nor of the next.
	OrderViolations int
	// Burnt are events with more attempts than handlers that began.
	Burnt int
	// Stuck are events neither processed nor on their way there, and marks of the rail that are wrong.
	Stuck, WrongMarks int
}

func (r *rig) verdict() (v verdict) {
	r.Helper()
	v.Events = value[int](r, `select count(*) from public.outbox_events`)
	v.Delivered = value[int](r, `select count(*) from public.outbox_events e where exists (select from public.deliveries d where d.event_id = e.id)`)
	v.Duplicates = value[int](r, `select count(*) - count(distinct event_id) from public.deliveries`)
	v.Unexplained = value[int](r, `select count(*) from (select worker, lead(worker) over (partition by event_id order by id) as next from public.deliveries) d
		where next is not null and worker not in (select worker from public.killed)`)
	v.OrderViolations = value[int](r, `select count(*) from (select seq, lag(seq, 1, 0) over (partition by aggregate_id order by id) as last, id from public.deliveries) d
		where seq not in (last, last + 1) or last = 0 and seq <> 1`)
	v.Burnt = value[int](r, `select count(*) from public.outbox_events e
		where attempts > (select count(*) from public.deliveries d where d.event_id = e.id)`)
	v.Stuck = value[int](r, `select count(*) from public.outbox_events where status <> 'processed'`)
	v.WrongMarks = value[int](r, `select count(*) from public.outbox_check()`)
	return v
}

// expectClean allows duplicates that a kill explains, and nothing else.
func (v verdict) expectClean(t testing.TB, events int) {
	t.Helper()
	want := verdict{Events: events, Delivered: events, Duplicates: v.Duplicates}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func (v verdict) table(kills, restarts int) string {
	var b strings.Builder
	for _, line := range []struct {
		name  string
		value int
	}{
		{"events", v.Events}, {"kills of a worker", kills}, {"restarts of the server", restarts}, {"delivered at least once", v.Delivered},
		{"order violations", v.OrderViolations}, {"duplicates", v.Duplicates}, {"  explained by a kill", v.Duplicates - v.Unexplained}, {"  not explained", v.Unexplained},
		{"attempts burnt without a start", v.Burnt}, {"stuck", v.Stuck}, {"wrong marks", v.WrongMarks},
	} {
		fmt.Fprintf(&b, "%-32s %8d\n", line.name, line.value)
	}
	return b.String()
}
