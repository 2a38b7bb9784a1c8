package outboxtest

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

var tableRules = []rule{
	{"a plain insert has the defaults", plainInsert},
	{"blank texts are refused", blankTexts},
	{"there are five statuses", fiveStatuses},
	{"attempts are not negative", negativeAttempts},
	{"type and key are unique together", uniqueKey},
	{"metadata is an object", metadataObject},
	{"dormant types say whose and why", dormantTexts},
	{"a transaction's events keep the order of its statements", statementOrder},
}

const insert = `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
	values ($1::text, gen_random_uuid(), $2::text, $3::text, '[1]')`

func plainInsert(s *store) {
	s.exec(insert, "order", "a", "k")
	want(s, "the columns with defaults are right", true, value[bool](s, `select id is not null and status = 'pending' and attempts = 0
		and metadata = '{}' and processed_at is null and error is null and abs(date_part('epoch', clock_timestamp() - created_at)) < 60
		and abs(date_part('epoch', available_at - created_at)) < 60 from public.outbox_events`))
}

func blankTexts(s *store) {
	for i, column := range []string{"aggregate_type", "event_type", "idempotency_key"} {
		for _, blank := range []string{"", "  "} {
			texts := []any{"order", "a", "k"}
			texts[i] = blank
			s.refused("23514", "outbox_events_"+column+"_nonempty_check", insert, texts...)
		}
	}
}

const insertStatus = `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload, status, attempts)
	values ('order', gen_random_uuid(), 'a', gen_random_uuid()::text, '{}', $1::text, $2::integer)`

func fiveStatuses(s *store) {
	for _, status := range []string{"pending", "processing", "processed", "failed", "discarded"} {
		s.exec(insertStatus, status, 0)
	}
	for _, status := range []string{"Pending", "done", ""} {
		s.refused("23514", "outbox_events_status_check", insertStatus, status, 0)
	}
}

func negativeAttempts(s *store) {
	s.exec(insertStatus, "pending", 0)
	s.refused("23514", "outbox_events_attempts_check", insertStatus, "pending", -1)
}

func uniqueKey(s *store) {
	s.exec(insert, "order", "a", "k")
	s.exec(insert, "order", "b", "k")
	s.refused("23505", "outbox_events_event_type_idempotency_key_key", insert, "invoice", "a", "k")
}

func metadataObject(s *store) {
	e := s.held(seed{})
	for _, metadata := range []string{"[]", "1", "null", `"x"`} {
		if _, err := s.pool.Exec(s.ctx, `update public.outbox_events set metadata = $1::jsonb`, metadata); err == nil {
			s.errorf("metadata %s was stored", metadata)
		}
		if _, err := s.pool.Exec(s.ctx, `select public.outbox_mark_processed($1::uuid, $2::text, $3::jsonb)`, e.ID, e.token(), metadata); err == nil {
			s.errorf("outbox_mark_processed took the metadata %s", metadata)
		}
	}
	want(s, "status", "processing", s.row(e.ID).Status)
}

func dormantTexts(s *store) {
	const dormant = `insert into public.outbox_dormant_event_types (event_type, owner, reason) values ($1::text, $2::text, $3::text)`
	s.exec(dormant, "a", "team", "why")
	for i, column := range []string{"event_type", "owner", "reason"} {
		texts := []any{"b", "team", "why"}
		texts[i] = " "
		s.refused("23514", "outbox_dormant_event_types_"+column+"_nonempty_check", dormant, texts...)
	}
}

// statementOrder has one aggregate's events written in one transaction, where now() stands still.
func statementOrder(s *store) {
	tx, err := s.pool.Begin(s.ctx)
	if err != nil {
		s.fatalf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(s.ctx) }()
	keys := strings.Split("abcdefghijklmnopqrst", "")
	for _, key := range keys {
		if _, err := tx.Exec(s.ctx, `insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
			values ('order', $1::uuid, 'a', $2::text, '{}')`, uuid.UUID{1}, key); err != nil {
			s.fatalf("insert: %w", err)
		}
	}
	if err := tx.Commit(s.ctx); err != nil {
		s.fatalf("commit: %w", err)
	}
	var order []string
	for range keys {
		for _, e := range s.claim("array['a']") {
			order = append(order, value[string](s, `select idempotency_key from public.outbox_events where id = $1::uuid`, e.ID))
			want(s, "acknowledged", true, s.processed(e.ID, e.token()))
		}
	}
	if !slices.Equal(order, keys) {
		s.errorf("handed out as %v, written as %v", order, keys)
	}
}
