-- migrate:up

-- Looks at a portion of the rail's marks (p_limit aggregates, going round) and sets right what no longer agrees with the
-- rows: a mark can be lost where triggers were off, or an event was ended under a snapshot older than the parking of
-- the next. Returns how many; outbox_rail.healed adds them up. Workers call it; without any, a cron job may.
create function public.outbox_heal(p_limit integer default 1000) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_limit constant integer := greatest(1, least(100000, coalesce(p_limit, 1000)));
  v_rail public.outbox_rail;
  v_at record;
  v_next record;
  v_healed integer;
  v_freed integer;
  v_orphans uuid[] := '{}';
begin
  select r.* into v_rail from public.outbox_rail r for no key update skip locked;
  if not found then
    return 0;  -- somebody else is at it
  end if;

  with lost as (
    select e.id from public.outbox_events e
    where (e.at_rest is null) = (e.lane is null or e.lane = 'gone')
    order by e.id limit v_limit for no key update skip locked)
  update public.outbox_events e
  set blocked_by = null, lane = case when e.at_rest is null then public.outbox_lane_by_time(e.status, e.available_at) end
  from lost l where e.id = l.id;
  get diagnostics v_healed = row_count;

  -- Queues: hop from one (aggregate, type) to the next and look at the first of each. The row that the last round ended
  -- at tells where to go on, wherever it is filed by now.
  select e.aggregate_type, e.aggregate_id, e.event_type into v_at
  from public.outbox_events e where e.id = v_rail.heal_after_queued;
  for v_step in 1..v_limit loop
    select e.id, e.aggregate_type, e.aggregate_id, e.event_type, exists (
        select from public.outbox_events o
        where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.event_type = e.event_type
          and o.at_rest is null and o.lane is distinct from 'queued' and o.waited
          and (o.created_at, o.id) < (e.created_at, e.id)) as led
    into v_next
    from public.outbox_events e
    where e.lane = 'queued' and (e.aggregate_id, e.aggregate_type, e.event_type)
      > (coalesce(v_at.aggregate_id, '00000000-0000-0000-0000-000000000000'), coalesce(v_at.aggregate_type, ''), coalesce(v_at.event_type, ''))
    order by e.aggregate_id, e.aggregate_type, e.event_type, e.created_at, e.id limit 1;
    v_rail.heal_after_queued := v_next.id;
    exit when v_next.id is null;
    if not v_next.led then
      v_orphans := v_orphans || v_next.id;
    end if;
    v_at := v_next;
  end loop;

  -- Barred rows, one after the other.
  select e.event_type, v_rail.heal_after_blocked_by as blocked_by, e.created_at, e.id into v_at
  from public.outbox_events e where e.id = v_rail.heal_after_barred;
  v_rail.heal_after_barred := null;
  for v_next in
    select e.id, e.blocked_by, case when e.blocked_by = '' then exists (
        select from public.outbox_halted_aggregates h
        where h.aggregate_type = e.aggregate_type and h.aggregate_id = e.aggregate_id)
      else exists (
        select from public.outbox_events o
        where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.event_type = e.blocked_by
          and o.at_rest is null and o.lane is distinct from 'queued' and o.waited
          and (o.created_at, o.id) < (e.created_at, e.id)) end as led
    from public.outbox_events e
    where e.lane = 'barred' and (e.event_type, e.blocked_by, e.created_at, e.id)
      > (coalesce(v_at.event_type, ''), coalesce(v_at.blocked_by, ''), coalesce(v_at.created_at, '-infinity'),
         coalesce(v_at.id, '00000000-0000-0000-0000-000000000000'))
    order by e.event_type, e.blocked_by, e.created_at, e.id limit v_limit
  loop
    v_rail.heal_after_barred := v_next.id;
    v_rail.heal_after_blocked_by := v_next.blocked_by;
    if not v_next.led then
      v_orphans := v_orphans || v_next.id;
    end if;
  end loop;

  with held as (
    select e.id from public.outbox_events e
    where e.id = any (v_orphans) and e.lane in ('queued', 'barred') order by e.id for no key update skip locked)
  update public.outbox_events e set lane = 'ready', blocked_by = null, waited = true from held h where e.id = h.id;
  get diagnostics v_freed = row_count;
  update public.outbox_rail r
  set heal_after_queued = v_rail.heal_after_queued, heal_after_barred = v_rail.heal_after_barred,
    heal_after_blocked_by = v_rail.heal_after_blocked_by, healed = r.healed + v_healed + v_freed, swept_at = clock_timestamp();
  return v_healed + v_freed;
end $$;

create type public.outbox_finding as (problem text, event_id uuid);

-- Compares every mark with the truth; for tests and doubts, as it reads everything active. On a rail at rest it
-- returns nothing. While others work it may name marks that are just being moved.
create function public.outbox_check() returns setof public.outbox_finding
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_nestloop = off
as $$
  with active as materialized (
    select e.id, e.created_at, e.aggregate_type, e.aggregate_id, e.event_type, e.lane, e.blocked_by, e.waited
    from public.outbox_events e where e.at_rest is null
  )
  select 'unfiled', a.id from active a where a.lane is null or a.lane = 'gone'
  union all
  select 'filed_at_rest', e.id from public.outbox_events e
  where e.at_rest is not null and e.lane <> 'gone'
  union all
  select 'queued_behind_nothing', q.id from active q
  where q.lane = 'queued' and not exists (
    select from active o
    where o.aggregate_type = q.aggregate_type and o.aggregate_id = q.aggregate_id and o.event_type = q.event_type
      and o.lane is distinct from 'queued' and o.waited and (o.created_at, o.id) < (q.created_at, q.id))
  union all
  select 'barred_behind_nothing', b.id from active b
  where b.lane = 'barred' and b.blocked_by <> '' and not exists (
    select from active o
    where o.aggregate_type = b.aggregate_type and o.aggregate_id = b.aggregate_id and o.event_type = b.blocked_by
      and o.lane is distinct from 'queued' and o.waited and (o.created_at, o.id) < (b.created_at, b.id))
  union all
  select 'halted_by_nothing', b.id from active b
  where b.lane = 'barred' and b.blocked_by = '' and not exists (
    select from public.outbox_halted_aggregates h
    where h.aggregate_type = b.aggregate_type and h.aggregate_id = b.aggregate_id)
  union all
  select 'lock_slots_missing', null where (select count(*) from public.outbox_aggregate_locks) <> 65536
$$;

-- migrate:down
drop function public.outbox_check();
drop type public.outbox_finding;
drop function public.outbox_heal(integer);
