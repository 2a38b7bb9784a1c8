-- name: OutboxRedrive :many
-- OutboxRedrive reopens discarded events; outcomes: redriven, in_flight, not_discarded, not_found.
SELECT m.event_id::uuid AS event_id, m.outcome::text AS outcome
FROM public.outbox_redrive(
  p_event_ids => (@event_ids::text[])::uuid[],
  p_by => @by_whom::text,
  p_reason => @reason::text) AS m;

-- name: OutboxDiscardedIDs :many
-- OutboxDiscardedIDs lists discarded events, oldest first, of one type or of all.
SELECT e.id
FROM public.outbox_events AS e
WHERE e.at_rest = 'discarded' AND e.event_type = ANY (@event_types::text[])
ORDER BY e.created_at, e.id
LIMIT @at_most::integer;

-- name: OutboxResumeAggregate :one
-- OutboxResumeAggregate lets a halted aggregate move again; false when it was not halted.
SELECT public.outbox_resume_aggregate(
  p_aggregate_type => @aggregate_type::text,
  p_aggregate_id => @aggregate_id::uuid)::boolean AS resumed;

-- name: OutboxHaltedAggregates :many
-- OutboxHaltedAggregates lists what stands still because of a discarded event, oldest first.
SELECT h.*
FROM public.outbox_halted_aggregates AS h
ORDER BY h.halted_at, h.aggregate_type, h.aggregate_id
LIMIT @at_most::integer;

-- name: OutboxPrune :one
-- OutboxPrune deletes old events at rest; a null keep_discarded_seconds keeps discarded ones.
SELECT public.outbox_prune(
  p_keep_seconds => @keep_seconds::double precision,
  p_limit => @at_most::integer,
  p_keep_discarded_seconds => sqlc.narg('keep_discarded_seconds')::double precision)::integer AS deleted;

-- name: OutboxRetain :one
-- OutboxRetain is OutboxPrune as workers may do it; -1 while another one is at it.
SELECT coalesce(public.outbox_retain(
  p_keep_seconds => @keep_seconds::double precision,
  p_limit => @at_most::integer,
  p_keep_discarded_seconds => sqlc.narg('keep_discarded_seconds')::double precision), -1)::integer AS deleted;

-- name: OutboxExplain :many
-- OutboxExplain says in one row why an event does not move; no row when there is none.
SELECT x.event_id::uuid AS event_id, x.event_type::text AS event_type, x.status::text AS status, x.reason::text AS reason,
  x.attempts::integer AS attempts, x.due_in_seconds::double precision AS due_in_seconds,
  coalesce(x.claimed_at, '')::text AS claimed_at,
  coalesce(x.blocker_id::text, '')::text AS blocker_id, coalesce(x.blocker_type, '')::text AS blocker_type,
  coalesce(x.blocker_status, '')::text AS blocker_status, coalesce(x.blocker_attempts, 0)::integer AS blocker_attempts,
  coalesce(x.blocker_due_in_seconds, 0)::double precision AS blocker_due_in_seconds,
  coalesce(x.blocker_claimed_at, '')::text AS blocker_claimed_at, x.waiting_behind::bigint AS waiting_behind,
  coalesce(x.held_by::text, '')::text AS held_by, coalesce(x.blocker_held_by::text, '')::text AS blocker_held_by
FROM public.outbox_explain(p_event_id => @event_id::uuid) AS x;

-- name: OutboxOldestOfAggregate :many
-- OutboxOldestOfAggregate finds the event that an aggregate stands at; no row when nothing waits.
SELECT x.event_id::uuid AS event_id
FROM public.outbox_explain_aggregate(
  p_aggregate_type => @aggregate_type::text,
  p_aggregate_id => @aggregate_id::uuid) AS x;

-- name: OutboxStats :many
-- OutboxStats counts per event type, each figure up to at_most.
SELECT s.event_type::text AS event_type, s.ready::bigint AS ready, s.later::bigint AS later, s.in_flight::bigint AS in_flight,
  s.parked::bigint AS parked, s.discarded::bigint AS discarded,
  coalesce(s.oldest_age_seconds, 0)::double precision AS oldest_age_seconds, s.dormant::boolean AS dormant
FROM public.outbox_stats(p_cap => @at_most::integer) AS s;

-- name: OutboxSetPolicy :exec
-- OutboxSetPolicy writes what belongs to an event type rather than to a worker.
INSERT INTO public.outbox_event_policies AS p (event_type, max_attempts, max_snoozes, on_discard)
VALUES (@event_type::text, sqlc.narg('max_attempts')::integer, sqlc.narg('max_snoozes')::integer, @on_discard::text)
ON CONFLICT (event_type) DO UPDATE
SET max_attempts = excluded.max_attempts, max_snoozes = excluded.max_snoozes, on_discard = excluded.on_discard, updated_at = clock_timestamp();
