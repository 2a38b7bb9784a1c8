-- migrate:up

-- Limits that belong to an event type rather than to whoever happens to claim it. Ships empty:
-- without a row the arguments of the call count, as the contract says.
create table public.outbox_event_policies (
  event_type text collate "C" primary key
    constraint outbox_event_policies_event_type_nonempty_check check (btrim(event_type) <> ''),
  max_attempts integer
    constraint outbox_event_policies_max_attempts_check check (max_attempts between 1 and 20),
  max_snoozes integer
    constraint outbox_event_policies_max_snoozes_check check (max_snoozes between 1 and 100000),
  on_discard text not null default 'continue'
    constraint outbox_event_policies_on_discard_check check (on_discard in ('continue', 'halt')),
  updated_at timestamptz not null default now()
);

-- Aggregates that stand still because an event whose type halts on discard was discarded.
create table public.outbox_halted_aggregates (
  aggregate_type text collate "C" not null,
  aggregate_id uuid not null,
  event_id uuid not null,
  event_type text collate "C" not null,
  reason text not null,
  halted_at timestamptz not null default clock_timestamp(),
  primary key (aggregate_type, aggregate_id)
);

-- What enqueueing locks, one slot per aggregate by hash. Row locks, not advisory ones: a transaction
-- may hold any number of them, while the lock table of the server is small and shared by all.
create table public.outbox_aggregate_locks (slot integer primary key);
insert into public.outbox_aggregate_locks (slot) select s from generate_series(0, 65535) s;

-- One row of the rail's own bookkeeping.
create table public.outbox_rail (
  one boolean primary key default true constraint outbox_rail_one_check check (one),
  asleep boolean not null default false,
  heal_after_queued uuid,
  heal_after_barred uuid,
  heal_after_blocked_by text,
  swept_at timestamptz not null default clock_timestamp(),
  healed bigint not null default 0
) with (fillfactor = 20);
comment on column public.outbox_rail.asleep is
  'Every worker that looked last found nothing and now sleeps: the next insert wakes them by NOTIFY.';
comment on column public.outbox_rail.healed is
  'Marks found lost or stale and set right since the installation.';
insert into public.outbox_rail (one) values (true);

create type public.outbox_outcome as (event_id uuid, outcome text);

-- migrate:down
drop type public.outbox_outcome;
drop table public.outbox_rail;
drop table public.outbox_aggregate_locks;
drop table public.outbox_halted_aggregates;
drop table public.outbox_event_policies;
