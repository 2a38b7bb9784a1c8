-- name: OutboxEnqueue :many
-- OutboxEnqueue writes events in the caller's transaction; one answer per event, in order.
SELECT e.event_id::uuid AS event_id, e.duplicate::boolean AS duplicate, e.same_payload::boolean AS same_payload
FROM public.outbox_enqueue(
  p_event_types => @event_types::text[],
  p_idempotency_keys => @idempotency_keys::text[],
  p_aggregate_types => @aggregate_types::text[],
  -- As text: []uuid.UUID has no encoding in the modes without a prepared statement.
  p_aggregate_ids => (@aggregate_ids::text[])::uuid[],
  p_payloads => @payloads::text[],
  p_metadata => @metadata::text[],
  p_delays_seconds => @delays_seconds::double precision[]) AS e;

-- name: OutboxClaim :many
-- OutboxClaim hands out the oldest due events of the given types, at most one per aggregate.
SELECT c.id, c.created_at, c.aggregate_type, c.aggregate_id, c.event_type, c.idempotency_key, c.attempts, c.payload, c.metadata,
  (c.metadata ->> 'claimToken')::text AS claim_token,
  least(greatest(public.outbox_snoozes(c.metadata), 0), 2147483647)::integer AS snoozes
FROM public.outbox_claim_events(
  p_event_types => @event_types::text[],
  p_known_event_types => @known_event_types::text[],
  p_limit => @batch_size::integer,
  p_visibility_seconds => @visibility_seconds::integer,
  p_max_attempts => @max_attempts::integer,
  p_holder => @holder::uuid,
  p_suspects => sqlc.narg('suspects')::boolean,
  p_since => sqlc.narg('since')::uuid) AS c;

-- name: OutboxClaimBatch :many
-- OutboxClaimBatch is the contract's claim: 1 to 100 events, leases of 300 to 3600 seconds.
SELECT *
FROM public.outbox_claim_batch(
  p_event_types => @event_types::text[],
  p_known_event_types => @known_event_types::text[],
  p_batch_size => @batch_size::integer,
  p_visibility_seconds => @visibility_seconds::integer,
  p_max_attempts => @max_attempts::integer);

-- name: OutboxMarkProcessed :one
-- OutboxMarkProcessed ends one event under its token; false when the token no longer holds it.
SELECT public.outbox_mark_processed(
  p_event_id => @event_id::uuid,
  p_claim_token => @claim_token::text,
  p_metadata => @metadata::jsonb)::boolean AS acknowledged;

-- name: OutboxMarkProcessedMany :one
-- OutboxMarkProcessedMany ends many events; one outcome each, in order: processed, repeated, lost.
SELECT array_agg(m.outcome ORDER BY m.ord)::text[] AS outcomes
FROM public.outbox_mark_processed_many(
  p_event_ids => (@event_ids::text[])::uuid[],
  p_claim_tokens => @claim_tokens::text[]) WITH ORDINALITY AS m(event_id, outcome, ord);

-- name: OutboxMarkFailedMany :many
-- OutboxMarkFailedMany records unsuccessful ends; outcomes: failed, discarded, snoozed, missed.
SELECT m.event_id::uuid AS event_id, m.outcome::text AS outcome
FROM public.outbox_mark_failed_many(
  p_event_ids => (@event_ids::text[])::uuid[],
  p_claim_tokens => @claim_tokens::text[],
  p_errors => @errors::text[],
  p_outcomes => @outcomes::text[],
  p_reasons => @reasons::text[],
  p_delays => @delays_seconds::integer[],
  p_base_delay_seconds => @base_delay_seconds::integer,
  p_max_delay_seconds => @max_delay_seconds::integer,
  p_max_attempts => @max_attempts::integer,
  p_snooze_seconds => @snooze_seconds::integer,
  p_max_snoozes => @max_snoozes::integer) AS m;

-- name: OutboxReleaseUnprocessed :one
-- OutboxReleaseUnprocessed gives unstarted events back with their attempt refunded.
SELECT public.outbox_release_unprocessed(
  p_event_ids => (@event_ids::text[])::uuid[],
  p_claim_tokens => @claim_tokens::text[],
  p_delay_seconds => @delay_seconds::integer)::integer AS released;

-- name: OutboxExtendLeases :many
-- OutboxExtendLeases returns the events whose lease now ends visibility_seconds from here.
SELECT x.event_id::uuid AS event_id
FROM public.outbox_extend_leases(
  p_event_ids => (@event_ids::text[])::uuid[],
  p_claim_tokens => @claim_tokens::text[],
  p_visibility_seconds => @visibility_seconds::integer) AS x(event_id);

-- name: OutboxFallAsleep :one
-- OutboxFallAsleep asks producers to send a NOTIFY with their next insert; false when they were asked already.
SELECT public.outbox_fall_asleep()::boolean AS asked;

-- name: OutboxHeal :one
-- OutboxHeal checks a portion of the rail's marks and returns how many it set right.
SELECT public.outbox_heal(p_limit => @portion::integer)::integer AS healed;

-- name: OutboxRecoverClaims :one
-- OutboxRecoverClaims gives back what a holder claimed without ever hearing of it.
SELECT public.outbox_recover_claims(
  p_holder => @holder::uuid,
  p_event_types => @event_types::text[],
  p_known_event_ids => (@known_event_ids::text[])::uuid[])::integer AS recovered;

-- name: OutboxStayAwake :exec
-- OutboxStayAwake spares producers the NOTIFY while the workers look by themselves.
SELECT public.outbox_stay_awake();

-- name: OutboxNotifySelf :exec
-- OutboxNotifySelf sends a notification that wakes nobody: a listener tests with it whether it hears.
SELECT pg_catalog.pg_notify('outbox_events', @probe::text);
