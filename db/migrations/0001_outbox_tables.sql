-- migrate:up

-- Ids grow with the clock and, inside one microsecond, with this sequence: rows of one
-- statement keep their order even where they share created_at. 40 bits are used; it may wrap.
create sequence public.outbox_event_id_seq as bigint maxvalue 1099511627775 cycle;

-- SECURITY DEFINER, so that a producer needs INSERT on the table and nothing on the sequence.
create function public.outbox_event_id() returns uuid
language plpgsql volatile security definer parallel unsafe
set search_path = pg_catalog, pg_temp as $$
declare
  v_micros bigint := (date_part('epoch', clock_timestamp()) * 1000000)::bigint;
begin
  return (lpad(to_hex(v_micros / 1000), 12, '0') || '7' || lpad(to_hex(v_micros % 1000), 3, '0')
    || '8' || lpad(to_hex(nextval('public.outbox_event_id_seq')), 10, '0')
    || lpad(to_hex((random() * 1048575)::integer), 5, '0'))::uuid;
end $$;

-- Types and keys are identifiers, compared byte by byte: cheaper than a language's rules, and the same everywhere.
create table public.outbox_events (
  id uuid primary key default public.outbox_event_id(),
  created_at timestamptz not null default clock_timestamp(),
  available_at timestamptz not null default clock_timestamp(),
  processed_at timestamptz,
  aggregate_type text collate "C" not null
    constraint outbox_events_aggregate_type_nonempty_check check (btrim(aggregate_type) <> '')
    constraint outbox_events_aggregate_type_length_check check (octet_length(aggregate_type) <= 255),
  aggregate_id uuid not null,
  event_type text collate "C" not null
    constraint outbox_events_event_type_nonempty_check check (btrim(event_type) <> '')
    constraint outbox_events_event_type_length_check check (octet_length(event_type) <= 255),
  idempotency_key text collate "C" not null
    constraint outbox_events_idempotency_key_nonempty_check check (btrim(idempotency_key) <> '')
    constraint outbox_events_idempotency_key_length_check check (octet_length(idempotency_key) <= 1024),
  status text not null default 'pending'
    constraint outbox_events_status_check
    check (status in ('pending', 'processing', 'processed', 'failed', 'discarded')),
  attempts integer not null default 0
    constraint outbox_events_attempts_check check (attempts >= 0),
  payload jsonb not null,
  error text,
  metadata jsonb not null default '{}'
    constraint outbox_events_metadata_object_check check (jsonb_typeof(metadata) = 'object'),
  -- Below stands the rail's own state; docs/ARCHITECTURE.md draws how a row moves through it.
  lane text collate "C"
    constraint outbox_events_lane_check check (lane in ('ready', 'timed', 'held', 'queued', 'barred', 'gone')),
  blocked_by text collate "C",
  waited boolean not null default false,
  held_by uuid,
  crashes smallint not null default 0,
  -- What indexes may know of status, available_at and attempts. These three stay the same while a row of the ready lane is
  -- claimed for the first time, so a claim of many is a heap-only update: no index has to learn of it.
  at_rest text collate "C" generated always as (case when status in ('processed', 'discarded') then status end) stored,
  due_at timestamptz generated always as (case when lane in ('timed', 'held') then available_at end) stored,
  tries smallint generated always as (
    case when lane in ('queued', 'barred') or lane = 'ready' and (status <> 'processing' or attempts > 1 or crashes >= 3)
      then nullif(least(attempts, 20), 0) end) stored,
  constraint outbox_events_created_at_finite_check check (isfinite(created_at)),
  constraint outbox_events_available_at_finite_check check (isfinite(available_at)),
  constraint outbox_events_event_type_idempotency_key_key unique (event_type, idempotency_key)
) with (
  -- More than half of each page stays free, for the larger versions that a claim of the whole page writes beside its rows.
  fillfactor = 40,
  -- Every event leaves two dead versions behind. The default (a fifth of the table) would let a
  -- long history postpone vacuum until the front of the queue is a field of dead entries.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 50000,
  autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 1, autovacuum_vacuum_cost_limit = 2000,
  toast.autovacuum_vacuum_scale_factor = 0.02
);

comment on column public.outbox_events.lane is
  'ready: due when filed, or claimed from there by the many. timed: available_at lay ahead (scheduled, retrying). held: claimed, or its lease extended. queued: behind an older active event of its own type and aggregate. barred: first of its type, behind an older event of the type in blocked_by. gone: taken out by hand. Null: at rest, or not filed yet.';
comment on column public.outbox_events.blocked_by is
  'For barred rows: the event type waited for; empty when the aggregate is halted.';
comment on column public.outbox_events.waited is
  'Some row was filed behind this one: whoever ends it releases the next.';
comment on column public.outbox_events.held_by is
  'The worker that claimed it last, where the claim named one.';
comment on column public.outbox_events.crashes is
  'How many workers in a row died while they held it. From three on it is a suspect, to be run alone.';
comment on column public.outbox_events.at_rest is
  'The status, where it is final. Null: active.';
comment on column public.outbox_events.due_at is
  'available_at, where the lane goes by it.';
comment on column public.outbox_events.tries is
  'attempts, up to the highest limit there is, where a claim has to find them used up before it comes across the row.';

-- What a claim reads: oldest first per type, so that types nobody asks for cost nothing.
create index outbox_events_ready_idx on public.outbox_events (event_type, created_at, id)
  where lane = 'ready' and at_rest is null and crashes < 3;
create index outbox_events_timed_idx on public.outbox_events (event_type, lane, due_at)
  where lane in ('timed', 'held');
create index outbox_events_barred_idx on public.outbox_events (event_type, blocked_by, created_at, id)
  where lane = 'barred';
create index outbox_events_suspect_idx on public.outbox_events (event_type, created_at, id)
  where crashes >= 3 and at_rest is null and lane in ('ready', 'timed', 'held', 'barred');
-- What the barrier reads: everything active that is not queued behind its own kind, by aggregate.
create index outbox_events_heads_idx on public.outbox_events (aggregate_id, aggregate_type, created_at, id)
  where at_rest is null and lane is distinct from 'queued';
create index outbox_events_queued_idx on public.outbox_events (aggregate_id, aggregate_type, event_type, created_at, id)
  where lane = 'queued';
create index outbox_events_exhausted_idx on public.outbox_events (event_type, tries, created_at, id)
  where tries is not null;
-- What pruning reads: rows at rest, by the time they came to rest.
create index outbox_events_processed_idx on public.outbox_events ((coalesce(processed_at, created_at)))
  where at_rest = 'processed';
create index outbox_events_discarded_idx on public.outbox_events (event_type, created_at, id)
  where at_rest = 'discarded';
-- What triggers would have prevented, had they been on: active rows in no lane, rows at rest in one. Normally empty.
create index outbox_events_misfiled_idx on public.outbox_events (id)
  where (at_rest is null) = (lane is null or lane = 'gone');

create table public.outbox_dormant_event_types (
  event_type text collate "C" primary key
    constraint outbox_dormant_event_types_event_type_nonempty_check check (btrim(event_type) <> ''),
  owner text not null
    constraint outbox_dormant_event_types_owner_nonempty_check check (btrim(owner) <> ''),
  reason text not null
    constraint outbox_dormant_event_types_reason_nonempty_check check (btrim(reason) <> ''),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

-- migrate:down
drop table public.outbox_dormant_event_types;
drop table public.outbox_events;
drop function public.outbox_event_id();
drop sequence public.outbox_event_id_seq;
