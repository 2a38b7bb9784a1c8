-- name: OperateOverview :many
-- OperateOverview counts per event type for people, each figure up to at_most.
SELECT o.event_type::text AS event_type, o.waiting::bigint AS waiting, o.due::bigint AS due, o.in_flight::bigint AS in_flight,
  o.failed::bigint AS failed, o.blocked::bigint AS blocked, o.discarded::bigint AS discarded,
  coalesce(o.oldest_age_seconds, 0)::double precision AS oldest_age_seconds, o.per_second::double precision AS per_second,
  o.dormant::boolean AS dormant, o.unclaimed::boolean AS unclaimed
FROM public.outbox_overview(p_cap => @at_most::integer, p_idle_seconds => @idle_seconds::double precision) AS o;

-- name: OperateBlockedAggregates :many
-- OperateBlockedAggregates lists aggregates in which events wait behind an old one, by that one.
SELECT b.aggregate_type::text AS aggregate_type, b.aggregate_id::uuid AS aggregate_id, b.event_id::uuid AS event_id,
  b.event_type::text AS event_type, b.status::text AS status, b.reason::text AS reason, b.attempts::integer AS attempts,
  b.age_seconds::double precision AS age_seconds, b.due_in_seconds::double precision AS due_in_seconds,
  b.waiting_behind::bigint AS waiting_behind
FROM public.outbox_blocked_aggregates(
  p_older_seconds => @older_seconds::double precision,
  p_limit => @at_most::integer) AS b;

-- name: OperateWorkers :many
-- OperateWorkers lists the workers that said within a minute that they live.
SELECT w.holder, w.event_types, date_part('epoch', clock_timestamp() - w.started_at)::double precision AS up_seconds,
  date_part('epoch', clock_timestamp() - w.seen_at)::double precision AS silent_seconds
FROM public.outbox_workers AS w
WHERE w.seen_at > clock_timestamp() - interval '1 minute'
ORDER BY w.started_at, w.holder;

-- name: OperateEvents :many
-- OperateEvents reads events by their ids, in no order.
SELECT e.id, e.created_at, e.available_at, e.processed_at, e.aggregate_type, e.aggregate_id, e.event_type, e.idempotency_key,
  e.status, e.attempts, e.payload, coalesce(e.error, '')::text AS error, e.metadata, e.held_by
FROM public.outbox_events AS e
WHERE e.id = ANY ((@event_ids::text[])::uuid[]);

-- name: OperateBehind :many
-- OperateBehind lists the oldest active events that are younger than the given one in its aggregate. In two parts, as no one
-- index holds both.
SELECT o.id, o.event_type, o.status, o.attempts
FROM public.outbox_events AS e
CROSS JOIN LATERAL (
  SELECT a.id, a.created_at, a.event_type, a.status, a.attempts
  FROM public.outbox_events AS a
  WHERE a.aggregate_type = e.aggregate_type AND a.aggregate_id = e.aggregate_id AND (a.created_at, a.id) > (e.created_at, e.id)
    AND a.at_rest IS NULL AND a.lane IS DISTINCT FROM 'queued'
  UNION ALL
  SELECT a.id, a.created_at, a.event_type, a.status, a.attempts
  FROM public.outbox_events AS a
  WHERE a.aggregate_type = e.aggregate_type AND a.aggregate_id = e.aggregate_id AND (a.created_at, a.id) > (e.created_at, e.id)
    AND a.at_rest IS NULL AND a.lane = 'queued') AS o
WHERE e.id = @event_id::uuid
ORDER BY o.created_at, o.id
LIMIT @at_most::integer;

-- name: OperateHalt :many
-- OperateHalt tells since when and by what an aggregate is halted; no row when it is not.
SELECT h.event_id, h.event_type, h.reason, h.halted_at
FROM public.outbox_halted_aggregates AS h
WHERE h.aggregate_type = @aggregate_type::text AND h.aggregate_id = @aggregate_id::uuid;

-- name: OperateDiscarded :many
-- OperateDiscarded selects discarded events to be redriven, oldest first; what is null or empty selects nothing away.
SELECT e.id, e.event_type, e.aggregate_type, e.aggregate_id, coalesce(e.metadata ->> 'discardReason', '')::text AS reason,
  date_part('epoch', clock_timestamp() - e.created_at)::double precision AS age_seconds
FROM public.outbox_events AS e
WHERE e.at_rest = 'discarded'
  AND (cardinality(@event_ids::text[]) = 0 OR e.id = ANY ((@event_ids::text[])::uuid[]))
  AND (sqlc.narg('event_type')::text IS NULL OR e.event_type = sqlc.narg('event_type')::text)
  AND (sqlc.narg('aggregate_type')::text IS NULL OR e.aggregate_type = sqlc.narg('aggregate_type')::text)
  AND (sqlc.narg('aggregate_id')::uuid IS NULL OR e.aggregate_id = sqlc.narg('aggregate_id')::uuid)
  AND (sqlc.narg('reason')::text IS NULL OR e.metadata ->> 'discardReason' = sqlc.narg('reason')::text)
ORDER BY e.created_at, e.id
LIMIT @at_most::integer;

-- name: OperateActive :many
-- OperateActive selects events to be discarded, youngest first: so that giving up one does not hand out the next. In two
-- parts, as no one index holds all that is active, and history is to cost nothing.
SELECT e.id, e.event_type, e.aggregate_type, e.aggregate_id, e.status AS reason,
  date_part('epoch', clock_timestamp() - e.created_at)::double precision AS age_seconds
FROM (
  SELECT a.id, a.created_at, a.aggregate_type, a.aggregate_id, a.event_type, a.status
  FROM public.outbox_events AS a WHERE a.at_rest IS NULL AND a.lane IS DISTINCT FROM 'queued'
  UNION ALL
  SELECT a.id, a.created_at, a.aggregate_type, a.aggregate_id, a.event_type, a.status
  FROM public.outbox_events AS a WHERE a.at_rest IS NULL AND a.lane = 'queued') AS e
WHERE (cardinality(@event_ids::text[]) = 0 OR e.id = ANY ((@event_ids::text[])::uuid[]))
  AND (sqlc.narg('event_type')::text IS NULL OR e.event_type = sqlc.narg('event_type')::text)
  AND (sqlc.narg('aggregate_type')::text IS NULL OR e.aggregate_type = sqlc.narg('aggregate_type')::text)
  AND (sqlc.narg('aggregate_id')::uuid IS NULL OR e.aggregate_id = sqlc.narg('aggregate_id')::uuid)
  AND (sqlc.narg('reason')::text IS NULL OR e.status = sqlc.narg('reason')::text)
ORDER BY e.created_at DESC, e.id DESC
LIMIT @at_most::integer;

-- name: OperateDiscard :many
-- OperateDiscard gives events up by hand; outcomes: discarded, in_flight, at_rest, not_found.
SELECT m.event_id::uuid AS event_id, m.outcome::text AS outcome
FROM public.outbox_discard(
  p_event_ids => (@event_ids::text[])::uuid[],
  p_by => @by_whom::text,
  p_reason => @reason::text) AS m;

-- name: OperatePrunable :one
-- OperatePrunable counts, up to at_most each, what pruning would delete. An index serves a time that stands still.
SELECT
  (SELECT count(*) FROM (
    SELECT FROM public.outbox_events AS p
    WHERE p.at_rest = 'processed' AND coalesce(p.processed_at, p.created_at) < statement_timestamp() - make_interval(secs => @keep_seconds::double precision)
    LIMIT @at_most::integer) AS x)::bigint AS processed,
  (SELECT count(*) FROM (
    SELECT FROM public.outbox_events AS d
    WHERE d.at_rest = 'discarded' AND d.created_at < statement_timestamp() - make_interval(secs => sqlc.narg('keep_discarded_seconds')::double precision)
      AND NOT EXISTS (SELECT FROM public.outbox_halted_aggregates AS h WHERE h.event_id = d.id)
    LIMIT @at_most::integer) AS y)::bigint AS discarded;

-- name: OperateInboxSources :many
-- OperateInboxSources lists the sources with messages in the inbox, by one look at the index for each.
WITH RECURSIVE s AS (
  SELECT min(f.source) AS source FROM public.webhook_inbox_entries AS f
  UNION ALL
  SELECT (SELECT min(n.source) FROM public.webhook_inbox_entries AS n WHERE n.source > s.source) FROM s WHERE s.source IS NOT NULL)
SELECT s.source::text AS source FROM s WHERE s.source IS NOT NULL;

-- name: OperateInboxPrunable :one
-- OperateInboxPrunable counts, up to at_most, a source's messages that pruning would forget.
SELECT count(*)::bigint AS messages FROM (
  SELECT FROM public.webhook_inbox_entries AS e
  WHERE e.source = @source::text AND e.received_at < clock_timestamp() - make_interval(secs => @keep_seconds::double precision)
  LIMIT @at_most::integer) AS x;

-- name: OperateDormantTypes :many
-- OperateDormantTypes lists the event types that hold nothing up.
SELECT d.event_type, d.owner, d.reason, d.created_at, d.updated_at
FROM public.outbox_dormant_event_types AS d
ORDER BY d.event_type;

-- name: OperateAddDormantType :exec
-- OperateAddDormantType makes a type dormant, or says anew whose it is and why.
INSERT INTO public.outbox_dormant_event_types AS d (event_type, owner, reason)
VALUES (@event_type::text, @owner::text, @reason::text)
ON CONFLICT (event_type) DO UPDATE SET owner = excluded.owner, reason = excluded.reason, updated_at = clock_timestamp();

-- name: OperateRemoveDormantType :execrows
-- OperateRemoveDormantType wakes a dormant type; 0 when it was not dormant.
DELETE FROM public.outbox_dormant_event_types AS d WHERE d.event_type = @event_type::text;

-- name: OperatePolicies :many
-- OperatePolicies lists what belongs to event types rather than to workers; 0 stands for no limit of its own.
SELECT p.event_type, coalesce(p.max_attempts, 0)::integer AS max_attempts, coalesce(p.max_snoozes, 0)::integer AS max_snoozes, p.on_discard
FROM public.outbox_event_policies AS p
ORDER BY p.event_type;

-- name: OperateRemovePolicy :execrows
-- OperateRemovePolicy leaves a type to the workers' configuration again; 0 when it had no policy.
DELETE FROM public.outbox_event_policies AS p WHERE p.event_type = @event_type::text;

-- name: OperateGrant :exec
-- OperateGrant gives a role the rights of a kind: producer, worker, operator, identity or inbox.
SELECT public.outbox_grant(p_kind => @kind::text, p_role => quote_ident(@role_name::text)::regrole);

-- name: OperateRights :many
-- OperateRights lists the rights of a kind of role.
SELECT r.privilege::text AS privilege, r.object_kind::text AS object_kind,
  (r.object || coalesce(' (' || array_to_string(r.columns, ', ') || ')', ''))::text AS object
FROM public.outbox_rights() AS r
WHERE r.kind = @kind::text
ORDER BY r.object_kind, r.object;

-- name: OperateGrantees :many
-- OperateGrantees lists the roles that were granted a kind, and how many of its rights each has not got.
SELECT g.kind::text AS kind, g.grantee::text AS role_name,
  (SELECT count(*) FROM public.outbox_missing_rights(p_kind => g.kind, p_role => g.grantee))::bigint AS missing
FROM public.outbox_grantees() AS g
ORDER BY 1, 2;

-- name: OperateRecent :many
-- OperateRecent reads events that moved within the last seconds or stand at the front.
SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.status, e.attempts, coalesce(e.error, '')::text AS error,
  coalesce(e.metadata ->> 'claimToken', '')::text AS claim_token, coalesce(e.metadata ->> 'discardReason', '')::text AS discard_reason,
  date_part('epoch', e.available_at - clock_timestamp())::double precision AS due_in_seconds,
  date_part('epoch', clock_timestamp() - e.created_at)::double precision AS age_seconds
FROM public.outbox_recent(p_seconds => @since_seconds::double precision, p_limit => @at_most::integer) AS e
ORDER BY e.created_at, e.id;

-- name: OperateFollowed :many
-- OperateFollowed reads the events with these ids again.
SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.status, e.attempts, coalesce(e.error, '')::text AS error,
  coalesce(e.metadata ->> 'claimToken', '')::text AS claim_token, coalesce(e.metadata ->> 'discardReason', '')::text AS discard_reason,
  date_part('epoch', e.available_at - clock_timestamp())::double precision AS due_in_seconds,
  date_part('epoch', clock_timestamp() - e.created_at)::double precision AS age_seconds
FROM public.outbox_events AS e
WHERE e.id = ANY ((@event_ids::text[])::uuid[])
ORDER BY e.created_at, e.id;

-- name: DoctorServer :one
-- DoctorServer tells what kind of server this is, and as whom one is connected.
SELECT current_setting('server_version_num')::integer AS version, current_setting('server_version')::text AS version_text,
  pg_is_in_recovery()::boolean AS in_recovery, current_setting('autovacuum')::text AS autovacuum,
  current_setting('track_counts')::text AS track_counts, current_user::text AS role_name,
  pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')::boolean AS sees_sessions;

-- name: DoctorFunctions :many
-- DoctorFunctions lists the functions in schema public with their bodies, and whether everyone may call them.
SELECT p.proname::text AS name, p.prosrc AS body, has_function_privilege('public', p.oid, 'EXECUTE')::boolean AS public
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'public'::regnamespace
ORDER BY 1;

-- name: DoctorIndexes :many
-- DoctorIndexes lists the indexes in schema public, and whether each can be used.
SELECT c.relname::text AS name, (i.indisvalid AND i.indisready)::boolean AS valid
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'public'::regnamespace
ORDER BY 1;

-- name: DoctorTriggers :many
-- DoctorTriggers lists the triggers in schema public, and whether each fires in ordinary sessions.
SELECT t.tgname::text AS name, c.relname::text AS table_name, (t.tgenabled IN ('O', 'A'))::boolean AS enabled
FROM pg_catalog.pg_trigger AS t
JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal
ORDER BY 1;

-- name: DoctorVacuum :one
-- DoctorVacuum tells how the table of events is kept; -1 second stands for never vacuumed.
SELECT s.n_live_tup::bigint AS live, s.n_dead_tup::bigint AS dead,
  coalesce(date_part('epoch', clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)), -1)::double precision AS vacuumed_seconds,
  ('autovacuum_enabled=false' = ANY (coalesce(c.reloptions, '{}')))::boolean AS switched_off
FROM pg_catalog.pg_stat_user_tables AS s
JOIN pg_catalog.pg_class AS c ON c.oid = s.relid
WHERE s.relid = 'public.outbox_events'::regclass;

-- name: DoctorSnapshots :many
-- DoctorSnapshots lists what has kept vacuum from removing dead rows for longer than the given time.
SELECT 'session'::text AS kind, a.pid::text AS name, coalesce(a.usename, '')::text AS role_name, a.application_name::text AS application,
  coalesce(a.state, '')::text AS state, date_part('epoch', clock_timestamp() - a.xact_start)::double precision AS seconds
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
  AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
  AND a.xact_start < clock_timestamp() - make_interval(secs => @older_seconds::double precision)
UNION ALL
SELECT 'prepared transaction', p.gid, p.owner::text, '', 'prepared', date_part('epoch', clock_timestamp() - p.prepared)
FROM pg_catalog.pg_prepared_xacts AS p
WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => @older_seconds::double precision)
UNION ALL
SELECT 'replication slot', s.slot_name::text, '', coalesce(s.plugin, '')::text, 'inactive', 0
FROM pg_catalog.pg_replication_slots AS s
WHERE NOT s.active AND s.xmin IS NOT NULL
ORDER BY 6 DESC;

-- name: DoctorStampLead :one
-- DoctorStampLead tells by how many seconds the newest stamp is ahead of the server's clock, if this role may know.
SELECT has_sequence_privilege('public.outbox_stamp_seq', 'SELECT')::boolean AS visible, (coalesce(max(q.last_value), 0) / 1000000.0 - date_part('epoch', clock_timestamp()))::double precision AS seconds
FROM pg_catalog.pg_sequences AS q
WHERE q.schemaname = 'public' AND q.sequencename = 'outbox_stamp_seq';

-- name: DoctorMarks :many
-- DoctorMarks compares the rail's marks with the events; it reads everything active.
SELECT c.problem::text AS problem, count(*)::bigint AS events
FROM public.outbox_check() AS c
GROUP BY c.problem
ORDER BY 1;
