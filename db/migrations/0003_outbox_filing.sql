-- migrate:up

-- All functions that read the queue carry the same planner settings. One generic plan per statement, because planning anew
-- in each call cost five times the call; and only what reads in the order of an index, because the statistics of a queue are
-- those of another hour: a plan that fits an empty table must not be found for a full one.

-- Lets the next row of each named aggregate and type go, and what is barred behind that type. The claim
-- looks at the freed rows again, so freeing one too many costs a look and never the order.
create function public.outbox_unblock(p_aggregate_types text[], p_aggregate_ids uuid[], p_event_types text[])
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  loop
    with left_behind as materialized (
      select distinct l.aggregate_type, l.aggregate_id, l.event_type
      from unnest(p_aggregate_types, p_aggregate_ids, p_event_types) l(aggregate_type, aggregate_id, event_type)
    ), freed as materialized (
      select q.id, l.aggregate_type, l.aggregate_id, l.event_type
      from left_behind l cross join lateral (
        select e.id from public.outbox_events e
        where e.aggregate_type = l.aggregate_type and e.aggregate_id = l.aggregate_id
          and e.event_type = l.event_type and e.lane = 'queued'
        order by e.created_at, e.id limit 1) q
      union all
      select e.id, l.aggregate_type, l.aggregate_id, l.event_type
      from left_behind l cross join lateral (
        select e.id, e.lane, e.blocked_by from public.outbox_events e
        where e.aggregate_type = l.aggregate_type and e.aggregate_id = l.aggregate_id
          and e.at_rest is null and e.lane is distinct from 'queued'
        -- A fence: with the lane known, a table without statistics has all barred rows of all aggregates read.
        offset 0) e
      where e.lane = 'barred' and e.blocked_by = l.event_type
    ), held as materialized (
      -- In id order, so that two of these at once wait for each other in one direction only.
      select e.id from public.outbox_events e
      where e.id in (select f.id from freed f) and e.lane in ('queued', 'barred')
      order by e.id for no key update
    ), moved as (
      update public.outbox_events e
      -- The freed row inherits the duty to free the next, whether or not there is one.
      set lane = 'ready', blocked_by = null, waited = true
      from held h where e.id = h.id
    )
    -- Whoever held a row until now may have taken it out of the queue: then it is the next one's turn.
    select array_agg(f.aggregate_type), array_agg(f.aggregate_id), array_agg(f.event_type)
    into p_aggregate_types, p_aggregate_ids, p_event_types
    from freed f where f.id not in (select h.id from held h);
    exit when p_event_types is null;
  end loop;
end $$;

-- The lane of an active row by its time alone. Parsed when created, so no search_path can change what it means.
create function public.outbox_lane_by_time(p_status text, p_available_at timestamptz) returns text
language sql volatile
return case when p_available_at operator(pg_catalog.<=) pg_catalog.clock_timestamp() then 'ready'
  when p_status operator(pg_catalog.=) 'processing' then 'held' else 'timed' end;

-- Files a row that a producer wrote by plain INSERT or COPY.
create function public.outbox_file_insert() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_before record;
begin
  new.lane := public.outbox_lane_by_time(new.status, new.available_at);
  -- A row behind another one of this very transaction can be queued right here: both become visible
  -- together, so nobody can end the first without seeing the second. No transaction id yet: no such row.
  if new.lane <> 'ready' or pg_current_xact_id_if_assigned() is null then
    return new;
  end if;
  select b.id, b.writer, b.waited into v_before from (
    (select e.id, e.xmin as writer, true as waited
     from public.outbox_events e
     where e.aggregate_type = new.aggregate_type and e.aggregate_id = new.aggregate_id
       and e.event_type = new.event_type and e.lane = 'queued'
       and (e.created_at, e.id) < (new.created_at, new.id)
     order by e.created_at desc, e.id desc limit 1)
    union all
    (select h.id, h.writer, h.waited
     from (select e.id, e.xmin as writer, e.waited, e.event_type
           from public.outbox_events e
           where e.aggregate_type = new.aggregate_type and e.aggregate_id = new.aggregate_id
             and e.at_rest is null and e.lane is distinct from 'queued'
             and (e.created_at, e.id) < (new.created_at, new.id)
           order by e.created_at desc, e.id desc limit 8) h
     where h.event_type = new.event_type limit 1)
    limit 1) b;
  if v_before.writer = pg_current_xact_id()::xid then
    new.lane := 'queued';
    if not v_before.waited then
      update public.outbox_events set waited = true where id = v_before.id;
    end if;
  end if;
  return new;
end $$;

create trigger outbox_events_file_insert before insert on public.outbox_events
for each row when (new.lane is null and new.status in ('pending', 'failed', 'processing'))
execute function public.outbox_file_insert();

-- Files a row anew after an UPDATE that knew nothing of lanes: the functions of the rail move the lane themselves, so an
-- unchanged lane beside a changed place or status means a hand did it. But a claim of many leaves its rows in the ready
-- lane, one that a hand made is as good as that, and what is given back from there is due and stays. Afterwards and not
-- before, as a trigger that may change the row has every update lock it first, each acknowledgement too.
create function public.outbox_file_update() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update public.outbox_events e
  set blocked_by = null, lane = case when e.at_rest is null then public.outbox_lane_by_time(e.status, e.available_at) else 'gone' end
  where e.id = new.id and (e.at_rest is null or e.lane is not null);
  return null;
end $$;

create trigger outbox_events_file_update after update on public.outbox_events
for each row when (
  new.lane is not distinct from old.lane
  and ((new.status, new.available_at) is distinct from (old.status, old.available_at)
      and not coalesce(new.lane = 'ready' and new.at_rest is null
        and (new.status = 'processing' or new.available_at <= pg_catalog.clock_timestamp()), false)
    or (new.created_at, new.id, new.aggregate_type, new.aggregate_id, new.event_type)
      is distinct from (old.created_at, old.id, old.aggregate_type, old.aggregate_id, old.event_type)))
execute function public.outbox_file_update();

-- A row left its place by hand, through UPDATE or DELETE: whoever stood behind it must learn of it.
create function public.outbox_leave() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform public.outbox_unblock(array[old.aggregate_type], array[old.aggregate_id], array[old.event_type]);
  return null;
end $$;

create trigger outbox_events_leave_update after update on public.outbox_events
for each row when (
  old.lane <> 'gone'
  and (new.lane = 'gone'
    or (new.created_at, new.id, new.aggregate_type, new.aggregate_id, new.event_type)
      is distinct from (old.created_at, old.id, old.aggregate_type, old.aggregate_id, old.event_type)))
execute function public.outbox_leave();

create trigger outbox_events_leave_delete after delete on public.outbox_events
for each row when (old.lane <> 'gone')
execute function public.outbox_leave();

-- A row at rest was reopened by hand: the younger rows of its aggregate are touched, so that a claim that has not seen
-- it does not find them where it saw them, and looks again.
create function public.outbox_reopen() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  update public.outbox_events y set waited = true
  where y.aggregate_type = new.aggregate_type and y.aggregate_id = new.aggregate_id
    and y.at_rest is null and y.lane is distinct from 'queued'
    and (y.created_at, y.id) > (new.created_at, new.id);
  return null;
end $$;

create trigger outbox_events_reopen after update on public.outbox_events
for each row when (
  old.status in ('processed', 'discarded') and new.status in ('pending', 'failed', 'processing'))
execute function public.outbox_reopen();

-- NOTIFY takes a lock that serializes commits, so it is sent only while the workers sleep.
create function public.outbox_wake() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if (select r.asleep from public.outbox_rail r) then
    perform pg_notify('outbox_events', '');
  end if;
  return null;
end $$;

create trigger outbox_events_wake after insert on public.outbox_events
for each statement execute function public.outbox_wake();

-- migrate:down
drop trigger outbox_events_wake on public.outbox_events;
drop trigger outbox_events_reopen on public.outbox_events;
drop trigger outbox_events_leave_delete on public.outbox_events;
drop trigger outbox_events_leave_update on public.outbox_events;
drop trigger outbox_events_file_update on public.outbox_events;
drop trigger outbox_events_file_insert on public.outbox_events;
drop function public.outbox_wake();
drop function public.outbox_reopen();
drop function public.outbox_leave();
drop function public.outbox_file_update();
drop function public.outbox_file_insert();
drop function public.outbox_lane_by_time(text, timestamptz);
drop function public.outbox_unblock(text[], uuid[], text[]);
