package db_test

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// drain handles everything there is of the types and gives it in the order in which it
// came. It ends the test where drained finds fault.
func (r *rail) drain(types ...string) []uuid.UUID {
	r.Helper()
	order, err := r.drained(types...)
	if err != nil {
		r.Fatalf("%v\nfindings: %v", err, r.findings())
	}
	return order
}

// drained claims and acknowledges until nothing comes any more. What comes while an older
// active event of the aggregate is left, or beside one in flight, is an error; so is
// what does not come. What waits for its time is made due by hand first.
func (r *rail) drained(types ...string) (order []uuid.UUID, err error) {
	r.Helper()
	r.exec(`update public.outbox_events set available_at = clock_timestamp() where lane in ('timed', 'held') or status = 'processing'`)
	for {
		got := r.claim(types...)
		if len(got) == 0 {
			return order, r.dry(types)
		}
		order = append(order, ids(got)...)
		if wrong := r.outOfOrder(got); len(wrong) > 0 {
			return order, fmt.Errorf("claimed %s", strings.Join(wrong, "\n"))
		}
		if n := r.ackAll(got); n != len(got) {
			return order, fmt.Errorf("acknowledged %d of %d", n, len(got))
		}
	}
}

// outOfOrder tells which of the events that were just claimed have another active event
// of their aggregate before them, or one in flight beside them.
func (r *rail) outOfOrder(claimed []event) []string {
	r.Helper()
	return column[string](r, `select format('%s beside or before %s', to_jsonb(e), to_jsonb(o))
		from public.outbox_events e join public.outbox_events o using (aggregate_type, aggregate_id)
		where e.id = any ($1) and o.id <> e.id and (o.status = 'processing' and o.available_at > clock_timestamp()
			or o.status in ('pending', 'failed', 'processing') and (o.created_at, o.id) < (e.created_at, e.id))`, ids(claimed))
}

// dry is an error while active events of the types are left.
func (r *rail) dry(types []string) error {
	r.Helper()
	left := column[string](r, `select format('%s %s %s %s waited=%s', event_type, id, status, lane, waited) from public.outbox_events
		where status in ('pending', 'failed', 'processing') and event_type = any ($1) order by created_at, id`, types)
	if len(left) > 0 {
		return fmt.Errorf("nothing is claimable, yet these wait:\n%s", strings.Join(left, "\n"))
	}
	return nil
}
