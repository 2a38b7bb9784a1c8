-- migrate:up

-- Gives events up by hand, at most 1000 a call, and answers per event: discarded; in_flight, when a worker has it under a
-- lease that has not run out (stop the worker first); at_rest, when it is processed or discarded already; not_found.
-- Who and why are recorded in the event. It halts nothing, whatever the policy of its type says: a policy calls for
-- a person to decide, and this is the decision.
create function public.outbox_discard(p_event_ids uuid[], p_by text, p_reason text)
returns setof public.outbox_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_discarded uuid[];
begin
  if p_event_ids is null or cardinality(p_event_ids) > 1000
    or btrim(coalesce(p_by, '')) = '' or btrim(coalesce(p_reason, '')) = '' then
    raise exception using errcode = '22023', message = 'outbox_discard_invalid_input';
  end if;
  with held as materialized (
    -- In id order, so that two overlapping calls cannot lock in opposite directions.
    select e.id from public.outbox_events e
    where e.id = any (p_event_ids) and e.status in ('pending', 'failed', 'processing')
    order by e.id for no key update
  ), ended as (
    update public.outbox_events e
    set status = 'discarded', lane = null, blocked_by = null,
      metadata = e.metadata || jsonb_build_object('discardReason', 'operator', 'discardedAt', v_now,
        'finalAttempts', e.attempts, 'discardedBy', p_by, 'discardNote', p_reason)
    from held h
    where e.id = h.id and e.status in ('pending', 'failed', 'processing')
      and not (e.status = 'processing' and e.available_at > v_now)
    returning e.id
  )
  select coalesce(array_agg(x.id), '{}') into v_discarded from ended x;

  perform public.outbox_unblock(array_agg(e.aggregate_type), array_agg(e.aggregate_id), array_agg(e.event_type))
  from public.outbox_events e where e.id = any (v_discarded) and e.waited
  having count(*) > 0;

  return query
  select a.id, case when a.id = any (v_discarded) then 'discarded' else coalesce((
    select case when e.status = 'processing' then 'in_flight' else 'at_rest' end
    from public.outbox_events e where e.id = a.id), 'not_found') end
  from unnest(p_event_ids) with ordinality a(id, ord) order by a.ord;
end $$;

create type public.outbox_type_overview as (
  event_type text, waiting bigint, due bigint, in_flight bigint, failed bigint, blocked bigint, discarded bigint,
  oldest_age_seconds double precision, per_second double precision, dormant boolean, unclaimed boolean);

-- Per event type, for people: waiting is all that is active but not in flight; of it, due could be handled now, failed has
-- failed before and blocked stands behind another event. Each is counted up to p_cap. per_second is the rate of the last
-- minute, or over the newest 10000 processed events of all types where those are younger. A type is unclaimed when its
-- oldest due event has waited for p_idle_seconds, no worker has said within a minute that it takes the type, and
-- none of its events is in flight or waits for a retry.
create function public.outbox_overview(p_cap integer default 10000, p_idle_seconds double precision default 300)
returns setof public.outbox_type_overview
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_cap constant integer := greatest(1, coalesce(p_cap, 10000));
begin
  return query
  with recent as materialized (
    select e.event_type, coalesce(e.processed_at, e.created_at) as ended_at from public.outbox_events e
    where e.status = 'processed' and coalesce(e.processed_at, e.created_at) > v_now - interval '1 minute'
    order by coalesce(e.processed_at, e.created_at) desc limit 10000
  ), sample as (
    select case when count(*) < 10000 then 60 else greatest(0.001, date_part('epoch', v_now - min(r.ended_at))) end as seconds
    from recent r
  ), rates as (
    select r.event_type, count(*) / (select s.seconds from sample s) as per_second from recent r group by r.event_type
  ), stats as materialized (
    select s.* from public.outbox_stats(v_cap) s
  ), types as materialized (
    select s.* from stats s
    union all
    -- Types whose events are all processed have a rate and nothing else.
    select r.event_type, 0, 0, 0, 0, 0, null, exists (
      select from public.outbox_dormant_event_types d where d.event_type = r.event_type)
    from rates r where r.event_type not in (select s.event_type from stats s)
  )
  select t.event_type, t.ready + t.later + t.parked, t.ready + x.overdue, t.in_flight, x.failed, t.parked, t.discarded,
    t.oldest_age_seconds, coalesce((select r.per_second from rates r where r.event_type = t.event_type), 0), t.dormant,
    not t.dormant and coalesce(t.oldest_age_seconds, 0) > coalesce(p_idle_seconds, 300) and x.attended = 0
      and not exists (select from public.outbox_workers w
                      where t.event_type = any (w.event_types) and w.seen_at > v_now - interval '1 minute')
  from types t
  cross join lateral (
    select count(*) filter (where c.status <> 'processing' and c.available_at <= v_now) as overdue,
      count(*) filter (where c.status = 'failed') as failed,
      count(*) filter (where c.status in ('processing', 'failed') and c.available_at > v_now) as attended
    from (select e.status, e.available_at from public.outbox_events e
          where e.lane = 'timed' and e.event_type = t.event_type limit v_cap) c) x
  order by t.event_type;
end $$;

-- The types of the events that a claim could look at, by hopping along the indexes from one to the next.
create function public.outbox_open_types() returns setof text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  return query
  with recursive ready(event_type) as (
    (select e.event_type from public.outbox_events e where e.lane = 'ready' order by e.event_type limit 1)
    union all
    select (select e.event_type from public.outbox_events e where e.lane = 'ready' and e.event_type > r.event_type
            order by e.event_type limit 1) from ready r where r.event_type is not null
  ), timed(event_type) as (
    (select e.event_type from public.outbox_events e where e.lane = 'timed' order by e.event_type limit 1)
    union all
    select (select e.event_type from public.outbox_events e where e.lane = 'timed' and e.event_type > t.event_type
            order by e.event_type limit 1) from timed t where t.event_type is not null
  ), suspect(event_type) as (
    (select e.event_type from public.outbox_events e where e.lane = 'suspect' order by e.event_type limit 1)
    union all
    select (select e.event_type from public.outbox_events e where e.lane = 'suspect' and e.event_type > s.event_type
            order by e.event_type limit 1) from suspect s where s.event_type is not null
  )
  select x.event_type::text from (
    select r.event_type from ready r union select t.event_type from timed t union select s.event_type from suspect s) x
  where x.event_type is not null;
end $$;

create type public.outbox_blocked_aggregate as (
  aggregate_type text, aggregate_id uuid, event_id uuid, event_type text, status text, reason text, attempts integer,
  age_seconds double precision, due_in_seconds double precision, waiting_behind bigint);

-- Aggregates in which younger events wait behind one that was written more than p_older_seconds ago and is not dormant, by
-- that event, the oldest first. Per type it looks at 200 of the oldest due and at 200 of those that wait for their
-- time, so its cost does not depend on what waits, and it may miss some of many.
create function public.outbox_blocked_aggregates(p_older_seconds double precision default 60, p_limit integer default 20)
returns setof public.outbox_blocked_aggregate
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_before constant timestamptz := v_now - make_interval(secs => greatest(0, coalesce(p_older_seconds, 60)));
begin
  return query
  with candidates as materialized (
    select c.*
    from (select o.event_type from public.outbox_open_types() o(event_type)
          where not exists (select from public.outbox_dormant_event_types d where d.event_type = o.event_type)) t
    cross join lateral (
      (select e.id, e.created_at, e.aggregate_type, e.aggregate_id, e.event_type from public.outbox_events e
       where e.lane = 'ready' and e.event_type = t.event_type and e.created_at < v_before
       order by e.created_at, e.id limit 200)
      union all
      (select e.id, e.created_at, e.aggregate_type, e.aggregate_id, e.event_type from public.outbox_events e
       where e.lane = 'suspect' and e.event_type = t.event_type and e.created_at < v_before
       order by e.created_at, e.id limit 200)
      union all
      (select e.id, e.created_at, e.aggregate_type, e.aggregate_id, e.event_type from public.outbox_events e
       where e.lane = 'timed' and e.event_type = t.event_type and e.created_at < v_before
       order by e.available_at limit 200)) c
  ), heads as materialized (
    select c.id, c.created_at, c.aggregate_type, c.aggregate_id from candidates c
    -- In two parts, as no one index holds both.
    where (exists (
        select from public.outbox_events o
        where o.aggregate_type = c.aggregate_type and o.aggregate_id = c.aggregate_id
          and o.status in ('pending', 'failed', 'processing') and o.lane is distinct from 'queued'
          and (o.created_at, o.id) > (c.created_at, c.id))
      or exists (
        select from public.outbox_events o
        where o.aggregate_type = c.aggregate_type and o.aggregate_id = c.aggregate_id and o.lane = 'queued'
          and (o.created_at, o.id) > (c.created_at, c.id)))
      and not exists (
        select from public.outbox_events o
        where o.aggregate_type = c.aggregate_type and o.aggregate_id = c.aggregate_id
          and o.status in ('pending', 'failed', 'processing') and o.lane is distinct from 'queued'
          and (o.created_at, o.id) < (c.created_at, c.id)
          and not exists (select from public.outbox_dormant_event_types d where d.event_type = o.event_type)
        offset 0)  -- a fence: as a join it could begin with all that is active
    order by c.created_at, c.id limit greatest(1, least(1000, coalesce(p_limit, 20)))
  )
  select h.aggregate_type, h.aggregate_id, x.event_id, x.event_type, x.status, x.reason, x.attempts,
    date_part('epoch', v_now - h.created_at), x.due_in_seconds, x.waiting_behind
  from heads h cross join lateral public.outbox_explain(h.id) x
  order by h.created_at, h.id;
end $$;

-- What moved within the last p_seconds or stands at the front, for those who watch: the newest events, the last processed,
-- and per type the oldest due and the first whose lease or pause ends; at most p_limit of each.
create function public.outbox_recent(p_seconds double precision default 5, p_limit integer default 200)
returns setof public.outbox_events
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_since constant timestamptz := clock_timestamp() - make_interval(secs => greatest(0, coalesce(p_seconds, 5)));
  v_limit constant integer := greatest(1, least(10000, coalesce(p_limit, 200)));
  -- Ids begin with the time at which they were made. Those given by hand do not, hence the end.
  v_first constant uuid := (lpad(to_hex((date_part('epoch', v_since) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
  v_last constant uuid := (lpad(to_hex((date_part('epoch', v_since) * 1000)::bigint + 86400000), 12, '0') || repeat('0', 20))::uuid;
begin
  return query
  select e.* from (
    (select n.id from public.outbox_events n where n.id between v_first and v_last order by n.id desc limit v_limit)
    union
    (select p.id from public.outbox_events p
     where p.status = 'processed' and coalesce(p.processed_at, p.created_at) > v_since
     order by coalesce(p.processed_at, p.created_at) desc limit v_limit)
    union
    select f.id from public.outbox_open_types() t(event_type) cross join lateral (
      (select r.id from public.outbox_events r
       where r.lane = 'ready' and r.event_type = t.event_type order by r.created_at, r.id limit v_limit)
      union all
      (select w.id from public.outbox_events w
       where w.lane = 'timed' and w.event_type = t.event_type order by w.available_at limit v_limit)) f
  ) i join public.outbox_events e on e.id = i.id;
end $$;

-- migrate:down
drop function public.outbox_recent(double precision, integer);
drop function public.outbox_blocked_aggregates(double precision, integer);
drop function public.outbox_open_types();
drop function public.outbox_overview(integer, double precision);
drop function public.outbox_discard(uuid[], text, text);
drop type public.outbox_blocked_aggregate;
drop type public.outbox_type_overview;
