package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// D9: a claim may begin at an event's place in the order. What stands before it waits for the next look from the
// beginning; retries, suspects and an event that is gone change nothing.
func TestD9_ClaimSince(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.exec(`insert into ` + plainColumns + ` select 'order', gen_random_uuid(), 'a', i::text, '{}' from generate_series(1, 4) i`)
	// The first is a retry that has just come due, the others are fresh. A lane that moves with the rest is left alone by the
	// triggers.
	reset := func() {
		r.exec(`update public.outbox_events set status = 'pending', lane = 'ready', available_at = clock_timestamp() - interval '1 second'`)
		r.exec(`update public.outbox_events set lane = 'timed' where idempotency_key = '1'`)
	}
	reset()
	all := column[uuid.UUID](r, `select id from public.outbox_events order by created_at, id`)
	claimed := func(since *uuid.UUID) []string {
		t.Helper()
		got := column[string](r, `with c as (
				select c.id, c.idempotency_key from public.outbox_claim_events(array['a'], '{}', 100, 300, 8, null, false, $1::uuid) c)
			select idempotency_key from c order by 1`, since)
		reset()
		return got
	}
	gone := uuid.New()
	for name, c := range map[string]struct {
		since *uuid.UUID
		want  []string
	}{
		"from the beginning": {nil, []string{"1", "2", "3", "4"}},
		"from the third on":  {&all[2], []string{"1", "3", "4"}},
		"from the last on":   {&all[3], []string{"1", "4"}},
		"from one that left": {&gone, []string{"1", "2", "3", "4"}},
	} {
		if diff := cmp.Diff(c.want, claimed(c.since)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
