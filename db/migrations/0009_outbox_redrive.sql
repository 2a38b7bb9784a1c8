-- migrate:up

-- Reopens discarded events in their old place, at most 1000 a call, and answers per event: redriven; in_flight, when a
-- younger event of the aggregate is being handled right now (try again once it has ended); not_discarded; not_found.
-- Who and why are recorded in the event. An aggregate that the event had halted moves again.
create function public.outbox_redrive(p_event_ids uuid[], p_by text, p_reason text)
returns setof public.outbox_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_locked uuid[] := '{}';
  v_found integer;
  v_held uuid[];
  v_busy uuid[];
  v_redriven uuid[];
begin
  if p_event_ids is null or cardinality(p_event_ids) > 1000
    or btrim(coalesce(p_by, '')) = '' or btrim(coalesce(p_reason, '')) = '' then
    raise exception using errcode = '22023', message = 'outbox_redrive_invalid_input';
  end if;
  -- No new event for these aggregates until this is decided, and none of the waiting ones is handed out. (A claim that
  -- has looked already, and will only then lock, is kept from it by what outbox_reopen does.)
  perform from public.outbox_aggregate_locks l
  where l.slot in (select public.outbox_aggregate_slot(e.aggregate_type, e.aggregate_id)
                   from public.outbox_events e where e.id = any (p_event_ids))
  order by l.slot for no key update;
  loop
    with waiting as materialized (
      select o.id
      from (select distinct e.aggregate_type, e.aggregate_id from public.outbox_events e where e.id = any (p_event_ids)) a
      cross join lateral (
        select o.id from public.outbox_events o
        where o.aggregate_type = a.aggregate_type and o.aggregate_id = a.aggregate_id
          and o.at_rest is null and o.lane is distinct from 'queued'
        offset 0) o  -- a fence: under statistics of an idle rail the plan would begin with all that is active
      where o.id <> all (v_locked)
    ), held as materialized (
      select y.id from public.outbox_events y
      where y.id in (select w.id from waiting w) and y.at_rest is null
      -- As acknowledgements do: first what is in flight, then what waits for it, each in id order.
      order by y.status <> 'processing', y.id for no key update
    )
    select (select count(*) from waiting), array_agg(h.id) into v_found, v_held from held h;
    -- Those that ended while this waited for them have let others go: look again.
    exit when v_found = 0;
    v_locked := v_locked || v_held;
  end loop;

  select coalesce(array_agg(e.id), '{}') into v_busy
  from public.outbox_events e
  where e.id = any (p_event_ids) and exists (
    select from public.outbox_events o
    where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id
      and o.at_rest is null and o.lane is distinct from 'queued'
      and o.status = 'processing' and o.available_at > v_now and (o.created_at, o.id) > (e.created_at, e.id)
    offset 0);

  with reopened as (
    update public.outbox_events e
    set status = 'pending', attempts = 0, available_at = v_now, lane = 'ready',
      metadata = e.metadata - array['discardReason', 'discardedAt', 'finalAttempts', 'snoozeCount'] || jsonb_build_object(
        'redrivenAt', v_now, 'redrivenBy', p_by, 'redriveReason', p_reason, 'redriveCount',
        1 + case when jsonb_typeof(e.metadata -> 'redriveCount') = 'number' then (e.metadata ->> 'redriveCount')::numeric else 0 end)
    -- "is true" keeps the plan from reading every discarded row by their index.
    where e.id = any (p_event_ids) and (e.at_rest = 'discarded') is true and e.id <> all (v_busy)
    returning e.id)
  select coalesce(array_agg(r.id), '{}') into v_redriven from reopened r;

  perform public.outbox_resume_aggregate(h.aggregate_type, h.aggregate_id)
  from public.outbox_halted_aggregates h where h.event_id = any (v_redriven);

  return query
  select a.id, case when a.id = any (v_redriven) then 'redriven' else coalesce((
    select case when e.status <> 'discarded' then 'not_discarded' else 'in_flight' end
    from public.outbox_events e where e.id = a.id), 'not_found') end
  from unnest(p_event_ids) with ordinality a(id, ord) order by a.ord;
end $$;

-- Lets a halted aggregate move again, past the event that stopped it. False when it was not halted.
create function public.outbox_resume_aggregate(p_aggregate_type text, p_aggregate_id uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  delete from public.outbox_halted_aggregates h
  where h.aggregate_type = p_aggregate_type and h.aggregate_id = p_aggregate_id;
  if not found then
    return false;
  end if;
  -- Rows that stand still for a halt are barred under the empty type.
  perform public.outbox_unblock(array[p_aggregate_type], array[p_aggregate_id], array['']);
  return true;
end $$;

-- Deletes what came to rest longer ago than asked, oldest first, at most p_limit (1 to 10000) of each kind a call, and
-- returns how many. Discarded events stay unless p_keep_discarded_seconds says otherwise, counted from when they were
-- written; one that halts its aggregate always stays. A deleted event's idempotency key is free again.
create function public.outbox_prune(
  p_keep_seconds double precision, p_limit integer default 1000, p_keep_discarded_seconds double precision default null)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_limit constant integer := greatest(1, least(10000, coalesce(p_limit, 1000)));
  v_deleted integer;
  v_total integer := 0;
begin
  if p_keep_seconds is null or not p_keep_seconds between 0 and 3155760000
    or not coalesce(p_keep_discarded_seconds, 0) between 0 and 3155760000 then
    raise exception using errcode = '22023', message = 'outbox_prune_invalid_input';
  end if;
  delete from public.outbox_events e where e.ctid = any (array(
    select p.ctid from public.outbox_events p
    where p.at_rest = 'processed' and coalesce(p.processed_at, p.created_at) < v_now - make_interval(secs => p_keep_seconds)
    order by coalesce(p.processed_at, p.created_at) limit v_limit for update skip locked));
  get diagnostics v_total = row_count;
  if p_keep_discarded_seconds is null then
    return v_total;
  end if;
  delete from public.outbox_events e where e.ctid = any (array(
    select d.ctid from public.outbox_events d
    where d.at_rest = 'discarded' and d.created_at < v_now - make_interval(secs => p_keep_discarded_seconds)
      and not exists (select from public.outbox_halted_aggregates h where h.event_id = d.id)
    order by d.event_type, d.created_at limit v_limit for update skip locked));
  get diagnostics v_deleted = row_count;
  return v_total + v_deleted;
end $$;

-- migrate:down
drop function public.outbox_prune(double precision, integer, double precision);
drop function public.outbox_resume_aggregate(text, uuid);
drop function public.outbox_redrive(uuid[], text, text);
