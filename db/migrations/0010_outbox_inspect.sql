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
    case when e.at_rest is not null then e.status
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
         and o.at_rest is null and o.lane is distinct from 'queued'
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
    on h.aggregate_type = e.aggregate_type and h.aggregate_id = e.aggregate_id and e.at_rest is null
  left join lateral (
    select o.* from public.outbox_events o
    where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id
      and o.at_rest is null and o.lane is distinct from 'queued'
      and (o.created_at, o.id) < (e.created_at, e.id)
      and (o.event_type = e.event_type
        or not exists (select from public.outbox_dormant_event_types d where d.event_type = o.event_type))
    order by o.created_at, o.id limit 1) b on e.at_rest is null
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
      and o.at_rest is null and o.lane is distinct from 'queued'
    order by o.created_at, o.id limit 1) oldest
  cross join lateral public.outbox_explain(oldest.id) x;
end $$;

-- All types that have events which are not processed, by hopping along the indexes from one type to the next.
create function public.outbox_types() returns setof text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return query
  with recursive types(event_type) as (
    select '' collate "C"
    union all
    select least(
      (select e.event_type from public.outbox_events e
       where e.event_type > t.event_type and e.lane = 'ready' and e.at_rest is null and e.crashes < 3
       order by e.event_type limit 1),
      (select e.event_type from public.outbox_events e
       where e.event_type > t.event_type and e.lane in ('timed', 'held') order by e.event_type limit 1),
      (select e.event_type from public.outbox_events e
       where e.event_type > t.event_type and e.lane = 'barred' order by e.event_type limit 1),
      (select e.event_type from public.outbox_events e
       where e.event_type > t.event_type and e.crashes >= 3 and e.at_rest is null and e.lane in ('ready', 'timed', 'held', 'barred')
       order by e.event_type limit 1),
      (select e.event_type from public.outbox_events e
       where e.event_type > t.event_type and e.at_rest = 'discarded' order by e.event_type limit 1))
    from types t where t.event_type is not null
  )
  select t.event_type::text from types t where t.event_type <> '';
end $$;

create type public.outbox_type_count as (
  event_type text, due bigint, later bigint, in_flight bigint, failed bigint, blocked bigint, discarded bigint,
  attended boolean, oldest_age_seconds double precision, dormant boolean);

-- Per type: due now, due later, in flight, failed before (due or not), behind another event, discarded; each counted up to
-- p_cap, the blocked ones among the first 10 * p_cap of all types, so the cost does not depend on what waits. Attended:
-- something of it is in flight or waits for a retry. The age is that of the oldest that is due.
create function public.outbox_counts(p_cap integer) returns setof public.outbox_type_count
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_cap constant integer := greatest(1, least(1000000, coalesce(p_cap, 10000)));
begin
  return query
  with queued as materialized (
    -- In the order of their index, which the aggregate leads: one pass for all types.
    select q.event_type, count(*) as behind from (
      select e.event_type from public.outbox_events e where e.lane = 'queued'
      order by e.aggregate_id, e.aggregate_type, e.event_type, e.created_at, e.id limit 10 * v_cap) q
    group by q.event_type)
  select t.event_type, least(v_cap, x.due), least(v_cap, x.later), least(v_cap, x.in_flight), least(v_cap, x.failed),
    least(v_cap, (select count(*) from (
        select from public.outbox_events e where e.lane = 'barred' and e.event_type = t.event_type limit v_cap) b)
      + coalesce((select q.behind from queued q where q.event_type = t.event_type), 0)),
    (select count(*) from (
      select from public.outbox_events e where e.at_rest = 'discarded' and e.event_type = t.event_type limit v_cap) d),
    x.attended, date_part('epoch', v_now - x.oldest),
    exists (select from public.outbox_dormant_event_types d where d.event_type = t.event_type)
  from public.outbox_types() t(event_type) cross join lateral (
    select count(*) filter (where s.available_at <= v_now) as due,
      count(*) filter (where s.available_at > v_now and s.status <> 'processing') as later,
      count(*) filter (where s.available_at > v_now and s.status = 'processing') as in_flight,
      count(*) filter (where s.status = 'failed') as failed,
      coalesce(bool_or(s.available_at > v_now and s.status in ('processing', 'failed')), false) as attended,
      min(s.since) filter (where s.available_at <= v_now) as oldest
    from (
      -- What large claims left in the ready lane stands at its front, and must not hide what waits behind.
      (select e.status, e.available_at, e.created_at as since from public.outbox_events e
       where e.event_type = t.event_type and e.lane = 'ready' and e.at_rest is null and e.crashes < 3 and e.available_at <= v_now
       order by e.created_at, e.id limit v_cap)
      union all
      select f.* from (
        select e.status, e.available_at, e.created_at from public.outbox_events e
        where e.event_type = t.event_type and e.lane = 'ready' and e.at_rest is null and e.crashes < 3
        order by e.created_at, e.id limit v_cap) f
      where f.available_at > v_now
      union all
      (select e.status, e.available_at, e.created_at from public.outbox_events e
       where e.event_type = t.event_type and e.crashes >= 3 and e.at_rest is null
         and e.lane in ('ready', 'timed', 'held', 'barred') and e.lane = 'ready'
       order by e.created_at, e.id limit v_cap)
      union all
      (select e.status, e.available_at, e.available_at from public.outbox_events e
       where e.event_type = t.event_type and e.lane in ('timed', 'held') and e.lane = 'timed' order by e.due_at limit v_cap)
      union all
      (select e.status, e.available_at, e.available_at from public.outbox_events e
       where e.event_type = t.event_type and e.lane in ('timed', 'held') and e.lane = 'held' order by e.due_at limit v_cap)) s) x;
end $$;

create type public.outbox_type_stats as (
  event_type text, ready bigint, later bigint, in_flight bigint, parked bigint, discarded bigint,
  oldest_age_seconds double precision, dormant boolean);

-- What metrics show of it, for each scrape.
create function public.outbox_stats(p_cap integer default 10000) returns setof public.outbox_type_stats
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.event_type, c.due, c.later, c.in_flight, c.blocked, c.discarded, c.oldest_age_seconds, c.dormant
  from public.outbox_counts(p_cap) c order by c.event_type
$$;

-- migrate:down
drop function public.outbox_stats(integer);
drop function public.outbox_counts(integer);
drop function public.outbox_types();
drop function public.outbox_explain_aggregate(text, uuid);
drop function public.outbox_explain(uuid);
drop type public.outbox_type_stats;
drop type public.outbox_type_count;
drop type public.outbox_explanation;
