-- migrate:up

create type public.outbox_explanation as (
  event_id uuid, event_type text, status text, reason text, attempts integer, due_in_seconds double precision, claimed_at text,
  blocker_id uuid, blocker_type text, blocker_status text, blocker_attempts integer, blocker_due_in_seconds double precision,
  blocker_claimed_at text, waiting_behind bigint, held_by uuid, blocker_held_by uuid);

-- Why an event does not move, in one row (none when there is no such event). Reasons: processed, discarded, in_flight,
-- lease_expired, halted, blocked, not_due, claimable. Blocked is worked out as for a worker that claims every type but
-- the dormant ones. waiting_behind counts the younger active events of the aggregate, up to 10000.
create function public.outbox_explain(p_event_id uuid) returns setof public.outbox_explanation
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
begin
  return query
  select e.id, e.event_type, e.status,
    case when e.status in ('processed', 'discarded') then e.status
      when e.status = 'processing' and e.available_at > v_now then 'in_flight'
      when h.event_id is not null then 'halted'
      when b.id is not null then 'blocked'
      when e.status = 'processing' then 'lease_expired'
      when e.available_at > v_now then 'not_due'
      else 'claimable' end,
    e.attempts, date_part('epoch', e.available_at - v_now), e.metadata ->> 'lastClaimedAt',
    b.id, b.event_type, b.status, b.attempts, date_part('epoch', b.available_at - v_now), b.metadata ->> 'lastClaimedAt',
    -- In two parts, as no one index holds both.
    (select count(*) from (
      (select from public.outbox_events o
       where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id
         and o.status in ('pending', 'failed', 'processing') and o.lane is distinct from 'queued'
         and (o.created_at, o.id) > (e.created_at, e.id)
       limit 10000)
      union all
      (select from public.outbox_events o
       where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.lane = 'queued'
         and (o.created_at, o.id) > (e.created_at, e.id)
       limit 10000)
      limit 10000) w),
    -- Who has it, while somebody has.
    case when e.status = 'processing' then e.held_by end, case when b.status = 'processing' then b.held_by end
  from public.outbox_events e
  left join public.outbox_halted_aggregates h
    on h.aggregate_type = e.aggregate_type and h.aggregate_id = e.aggregate_id and e.status not in ('processed', 'discarded')
  left join lateral (
    select o.* from public.outbox_events o
    where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id
      and o.status in ('pending', 'failed', 'processing') and o.lane is distinct from 'queued'
      and (o.created_at, o.id) < (e.created_at, e.id)
      and (o.event_type = e.event_type
        or not exists (select from public.outbox_dormant_event_types d where d.event_type = o.event_type))
    order by o.created_at, o.id limit 1) b on e.status in ('pending', 'failed', 'processing')
  where e.id = p_event_id;
end $$;

-- The same for an aggregate: its oldest active event, or no row when nothing of it waits.
create function public.outbox_explain_aggregate(p_aggregate_type text, p_aggregate_id uuid)
returns setof public.outbox_explanation
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
begin
  return query
  select x.* from (
    select o.id from public.outbox_events o
    where o.aggregate_type = p_aggregate_type and o.aggregate_id = p_aggregate_id
      and o.status in ('pending', 'failed', 'processing') and o.lane is distinct from 'queued'
    order by o.created_at, o.id limit 1) oldest
  cross join lateral public.outbox_explain(oldest.id) x;
end $$;

create type public.outbox_type_stats as (
  event_type text, ready bigint, later bigint, in_flight bigint, parked bigint, discarded bigint,
  oldest_age_seconds double precision, dormant boolean);

-- Per event type: due now, due later, being handled, waiting behind another event, discarded; each counted up to p_cap,
-- so that a scrape stays cheap whatever has piled up. The age is that of the oldest event that is due.
create function public.outbox_stats(p_cap integer default 10000) returns setof public.outbox_type_stats
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_cap constant integer := greatest(1, coalesce(p_cap, 10000));
begin
  return query
  -- Hops from type to type along each index instead of reading what lies between.
  with recursive ready(event_type) as (
    (select e.event_type from public.outbox_events e where e.lane = 'ready' order by e.event_type limit 1)
    union all
    select (select e.event_type from public.outbox_events e where e.lane = 'ready' and e.event_type > r.event_type
            order by e.event_type limit 1) from ready r where r.event_type is not null
  ), timed(event_type) as (
    (select e.event_type from public.outbox_events e where e.lane = 'timed' order by e.event_type limit 1)
    union all
    select (select e.event_type from public.outbox_events e where e.lane = 'timed' and e.event_type > r.event_type
            order by e.event_type limit 1) from timed r where r.event_type is not null
  ), barred(event_type) as (
    (select e.event_type from public.outbox_events e where e.lane = 'barred' order by e.event_type limit 1)
    union all
    select (select e.event_type from public.outbox_events e where e.lane = 'barred' and e.event_type > r.event_type
            order by e.event_type limit 1) from barred r where r.event_type is not null
  ), discarded(event_type) as (
    (select e.event_type from public.outbox_events e where e.status = 'discarded' order by e.event_type limit 1)
    union all
    select (select e.event_type from public.outbox_events e where e.status = 'discarded' and e.event_type > r.event_type
            order by e.event_type limit 1) from discarded r where r.event_type is not null
  ), types as (
    select r.event_type from ready r union select r.event_type from timed r
    union select r.event_type from barred r union select r.event_type from discarded r)
  select t.event_type,
    (select count(*) from (select from public.outbox_events e where e.lane = 'ready' and e.event_type = t.event_type limit v_cap) c)
      + (select count(*) from (select from public.outbox_events e where e.lane = 'suspect' and e.event_type = t.event_type limit v_cap) c),
    w.later, w.in_flight,
    (select count(*) from (select from public.outbox_events e where e.lane = 'barred' and e.event_type = t.event_type limit v_cap) c)
      + (select count(*) from (select from public.outbox_events e where e.lane = 'queued' and e.event_type = t.event_type limit v_cap) c),
    (select count(*) from (select from public.outbox_events e where e.status = 'discarded' and e.event_type = t.event_type limit v_cap) c),
    date_part('epoch', v_now - least(
      (select e.created_at from public.outbox_events e where e.lane = 'ready' and e.event_type = t.event_type order by e.created_at limit 1),
      (select e.available_at from public.outbox_events e where e.lane = 'timed' and e.event_type = t.event_type and e.available_at <= v_now
       order by e.available_at limit 1))),
    exists (select from public.outbox_dormant_event_types d where d.event_type = t.event_type)
  from types t cross join lateral (
    select count(*) filter (where x.status <> 'processing') as later, count(*) filter (where x.status = 'processing') as in_flight
    from (select e.status from public.outbox_events e where e.lane = 'timed' and e.event_type = t.event_type limit v_cap) x) w
  where t.event_type is not null
  order by t.event_type;
end $$;

-- migrate:down
drop function public.outbox_stats(integer);
drop function public.outbox_explain_aggregate(text, uuid);
drop function public.outbox_explain(uuid);
drop type public.outbox_type_stats;
drop type public.outbox_explanation;
