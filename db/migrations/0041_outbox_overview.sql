-- migrate:up

create type public.outbox_type_overview as (
  event_type text, waiting bigint, due bigint, in_flight bigint, failed bigint, blocked bigint, discarded bigint,
  oldest_age_seconds double precision, per_second double precision, dormant boolean, unclaimed boolean);

-- Per event type, for people: waiting is all that is active but not in flight; of it, due could be handled now, failed has
-- failed before and blocked stands behind another event; counted as outbox_counts does. per_second is the rate of the last
-- minute, or over the newest 10000 processed events of all types where those are younger. A type is unclaimed when its
-- oldest due event has waited for p_idle_seconds, no worker has said within a minute that it takes the type, and none of
-- its events is in flight or waits for a retry.
create function public.outbox_overview(p_cap integer default 10000, p_idle_seconds double precision default 300)
returns setof public.outbox_type_overview
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
begin
  return query
  with recent as materialized (
    select e.event_type, coalesce(e.processed_at, e.created_at) as ended_at from public.outbox_events e
    where e.at_rest = 'processed' and coalesce(e.processed_at, e.created_at) > v_now - interval '1 minute'
    order by coalesce(e.processed_at, e.created_at) desc limit 10000
  ), sample as (
    select case when count(*) < 10000 then 60 else greatest(0.001, date_part('epoch', v_now - min(r.ended_at))) end as seconds
    from recent r
  ), rates as materialized (
    select r.event_type, count(*) / (select s.seconds from sample s) as per_second from recent r group by r.event_type
  )
  select coalesce(c.event_type, r.event_type)::text,
    coalesce(c.due + c.later + c.blocked, 0), coalesce(c.due, 0), coalesce(c.in_flight, 0), coalesce(c.failed, 0),
    coalesce(c.blocked, 0), coalesce(c.discarded, 0), c.oldest_age_seconds, coalesce(r.per_second, 0),
    coalesce(c.dormant, exists (select from public.outbox_dormant_event_types d where d.event_type = r.event_type)),
    coalesce(not c.dormant and c.oldest_age_seconds > coalesce(p_idle_seconds, 300) and not c.attended, false)
      and not exists (select from public.outbox_workers w
                      where c.event_type = any (w.event_types) and w.seen_at > v_now - interval '1 minute')
  from public.outbox_counts(p_cap) c full join rates r on r.event_type = c.event_type
  order by 1;
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
    from (select o.event_type from public.outbox_types() o(event_type)
          where not exists (select from public.outbox_dormant_event_types d where d.event_type = o.event_type)) t
    cross join lateral (
      (select e.id, e.created_at, e.aggregate_type, e.aggregate_id, e.event_type from public.outbox_events e
       where e.lane = 'ready' and e.at_rest is null and e.crashes < 3 and e.event_type = t.event_type and e.created_at < v_before
       order by e.created_at, e.id limit 200)
      union all
      (select e.id, e.created_at, e.aggregate_type, e.aggregate_id, e.event_type from public.outbox_events e
       where e.crashes >= 3 and e.at_rest is null and e.lane in ('ready', 'timed', 'held', 'barred') and e.lane = 'ready'
         and e.event_type = t.event_type and e.created_at < v_before
       order by e.created_at, e.id limit 200)
      union all
      (select e.id, e.created_at, e.aggregate_type, e.aggregate_id, e.event_type
       from (values ('timed'), ('held')) l(lane) cross join lateral (
         select e.* from public.outbox_events e
         where e.lane in ('timed', 'held') and e.lane = l.lane and e.event_type = t.event_type and e.created_at < v_before
         order by e.due_at limit 200) e)) c
  ), heads as materialized (
    select c.id, c.created_at, c.aggregate_type, c.aggregate_id from candidates c
    -- In two parts, as no one index holds both.
    where (exists (
        select from public.outbox_events o
        where o.aggregate_type = c.aggregate_type and o.aggregate_id = c.aggregate_id
          and o.at_rest is null and o.lane is distinct from 'queued'
          and (o.created_at, o.id) > (c.created_at, c.id))
      or exists (
        select from public.outbox_events o
        where o.aggregate_type = c.aggregate_type and o.aggregate_id = c.aggregate_id and o.lane = 'queued'
          and (o.created_at, o.id) > (c.created_at, c.id)))
      and not exists (
        select from public.outbox_events o
        where o.aggregate_type = c.aggregate_type and o.aggregate_id = c.aggregate_id
          and o.at_rest is null and o.lane is distinct from 'queued'
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
     where p.at_rest = 'processed' and coalesce(p.processed_at, p.created_at) > v_since
     order by coalesce(p.processed_at, p.created_at) desc limit v_limit)
    union
    select f.id from public.outbox_types() t(event_type) cross join lateral (
      (select r.id from public.outbox_events r
       where r.lane = 'ready' and r.at_rest is null and r.crashes < 3 and r.event_type = t.event_type order by r.created_at, r.id limit v_limit)
      union all
      (select w.id from (values ('timed'), ('held')) l(lane) cross join lateral (
         select w.id, w.due_at from public.outbox_events w
         where w.lane in ('timed', 'held') and w.lane = l.lane and w.event_type = t.event_type
         order by w.due_at limit v_limit) w
       order by w.due_at limit v_limit)) f
  ) i join public.outbox_events e on e.id = i.id;
end $$;

-- migrate:down
drop function public.outbox_recent(double precision, integer);
drop function public.outbox_blocked_aggregates(double precision, integer);
drop function public.outbox_overview(integer, double precision);
drop type public.outbox_blocked_aggregate;
drop type public.outbox_type_overview;
