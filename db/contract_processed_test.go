package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// held inserts an event that is being handled under token "t" and has been claimed
// attempts times.
func (r *rail) held(attempts int) uuid.UUID {
	r.Helper()
	return r.insert(row{Type: "held", Agg: 1000 + attempts, Status: "processing", Attempts: attempts, Due: time.Hour, Age: time.Minute,
		Metadata: `{"claimToken": "t", "mine": {"a": 1}}`})
}

// outbox_mark_processed: true, and what changes.
func TestMarkProcessed(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	text := "earlier trouble"
	for name, c := range map[string]struct {
		argument string
		gains    map[string]any
	}{
		"omitted":   {``, nil},
		"null":      {`, null`, nil},
		"empty":     {`, '{}'`, nil},
		"merged":    {`, '{"answer": [1, null], "mine": {"b": 2}}'`, map[string]any{"answer": []any{1.0, nil}, "mine": map[string]any{"b": 2.0}}},
		"its token": {`, '{"claimToken": "other"}'`, map[string]any{"claimToken": "other"}},
	} {
		id := r.held(3)
		r.exec(`update public.outbox_events set error = $2 where id = $1`, id, text)
		want := r.event(id)
		if !value[bool](r, `select public.outbox_mark_processed($1, 't'`+c.argument+`)`, id) {
			t.Errorf("%s: not acknowledged", name)
		}
		got := r.event(id)
		if got.ProcessedAt == nil || value[bool](r, `select abs(extract(epoch from clock_timestamp() - $1::timestamptz)) > 60`, got.ProcessedAt) {
			t.Errorf("%s: processed_at is %v, not now", name, got.ProcessedAt)
		}
		want.Status, want.Error, want.ProcessedAt, want.Lane = "processed", nil, got.ProcessedAt, nil
		for key, v := range c.gains {
			want.Metadata[key] = v
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// outbox_mark_processed: otherwise false, and nothing changes.
func TestMarkProcessedOtherwise(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id := r.held(1)
	for name, c := range map[string]struct{ change, call string }{
		"wrong token":  {`status = 'processing'`, `select public.outbox_mark_processed($1, 'T', '{"x": 1}')`},
		"empty token":  {`status = 'processing'`, `select public.outbox_mark_processed($1, '')`},
		"null token":   {`status = 'processing'`, `select public.outbox_mark_processed($1, null)`},
		"no token":     {`metadata = '{}'`, `select public.outbox_mark_processed($1, null)`},
		"pending":      {`status = 'pending', metadata = '{"claimToken": "t"}'`, `select public.outbox_mark_processed($1, 't')`},
		"failed":       {`status = 'failed'`, `select public.outbox_mark_processed($1, 't')`},
		"processed":    {`status = 'processed'`, `select public.outbox_mark_processed($1, 't')`},
		"discarded":    {`status = 'discarded'`, `select public.outbox_mark_processed($1, 't')`},
		"number token": {`status = 'processing', metadata = '{"claimToken": 7}'`, `select public.outbox_mark_processed($1, 't')`},
	} {
		r.exec(`update public.outbox_events set `+c.change+` where id = $1`, id)
		before := r.event(id)
		if value[bool](r, c.call, id) {
			t.Errorf("%s: acknowledged", name)
		}
		if diff := cmp.Diff(before, r.event(id)); diff != "" {
			t.Errorf("%s: changed:\n%s", name, diff)
		}
	}
	for _, call := range []string{`select public.outbox_mark_processed(gen_random_uuid(), 't')`, `select public.outbox_mark_processed(null, 't')`} {
		if value[bool](r, call) {
			t.Errorf("%s: acknowledged", call)
		}
	}
}

// Where ours must be better, 4: p_metadata that is no object is refused, nothing changed.
func TestMarkProcessedMetadataNoObject(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	id := r.held(1)
	before := r.event(id)
	for _, metadata := range []string{`null`, `[]`, `[{}]`, `"text"`, `1`, `true`} {
		refused := r.fails(`select public.outbox_mark_processed($1, 't', $2::text::jsonb)`, id, metadata)
		if refused.Code != "22023" || refused.Message != "outbox_mark_processed_invalid_metadata" {
			t.Errorf("%s: %v", metadata, refused)
		}
		if diff := cmp.Diff(before, r.event(id)); diff != "" {
			t.Errorf("%s: changed:\n%s", metadata, diff)
		}
	}
}

// Where ours must be better, 7: many in one statement with an answer per row, in the
// order asked; a repeated one is told from a lost one.
func TestMarkProcessedMany(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	a, b, lost, gone := r.held(1), r.held(2), r.held(3), uuid.New()
	r.exec(`update public.outbox_events set metadata = '{"claimToken": "other"}' where id = $1`, lost)
	call := func(ids []uuid.UUID, tokens []string) []string {
		return column[string](r, `select concat_ws(' ', m.event_id, m.outcome) from public.outbox_mark_processed_many($1, $2) m`, ids, tokens)
	}
	answer := func(id uuid.UUID, outcome string) string { return id.String() + " " + outcome }
	for i, step := range []struct {
		ids    []uuid.UUID
		tokens []string
		want   []string
	}{
		{[]uuid.UUID{}, []string{}, []string{}},
		{[]uuid.UUID{b, lost, gone, a, b}, []string{"t", "t", "t", "t", "t"},
			[]string{answer(b, "processed"), answer(lost, "lost"), answer(gone, "lost"), answer(a, "processed"), answer(b, "processed")}},
		{[]uuid.UUID{a, b, a}, []string{"t", "x", "t"}, []string{answer(a, "repeated"), answer(b, "lost"), answer(a, "repeated")}},
		{[]uuid.UUID{lost}, []string{"other"}, []string{answer(lost, "processed")}},
	} {
		if diff := cmp.Diff(step.want, call(step.ids, step.tokens)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	r.sound()
}

// outbox_mark_processed: the next of the aggregate can be claimed at once, and so can
// what waited behind the type.
func TestMarkProcessedLetsTheNextGo(t *testing.T) {
	t.Parallel()
	r := newRail(t)
	r.insert(row{Agg: 1, Age: 9e9})
	next := r.insert(row{Agg: 1, Age: 8e9})
	foreign := r.insert(row{Agg: 1, Age: 7e9, Type: "b"})
	r.insert(row{Agg: 1, Age: 6e9})
	first := r.claimOne("a", "b")
	for _, want := range []uuid.UUID{next, foreign} {
		r.ack(first)
		r.sound()
		if first = r.claimOne("a", "b"); first.ID != want {
			t.Fatalf("claimed %s, want %s", first.ID, want)
		}
	}
}
