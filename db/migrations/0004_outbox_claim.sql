-- migrate:up

-- Discards up to 100 due rows of the given types whose attempts are used up, the oldest first, unless somebody else is at
-- them: those of p_event_ids, or without them whatever is filed under its attempts. Limits run parallel to types.
-- Returns how many.
create function public.outbox_discard_exhausted(
  p_event_types text[], p_limits integer[], p_now timestamptz, p_event_ids uuid[] default null)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_rows uuid[] := p_event_ids;
begin
  if v_rows is null then
    select array_agg(f.id) into v_rows from (
      select e.id
      from unnest(p_event_types, p_limits) t(event_type, max_attempts)
      cross join lateral (
        select x.id, x.created_at from generate_series(t.max_attempts, 20) b(tries) cross join lateral (
          select e.id, e.created_at from public.outbox_events e
          where e.event_type = t.event_type and e.tries = b.tries and e.available_at <= p_now
          order by e.created_at, e.id limit 100) x
        union all
        -- A window of those whose time has come; all that wait for theirs are never looked at.
        select d.id, d.created_at from (values ('timed'), ('held')) l(lane) cross join lateral (
          select e.id, e.created_at, e.attempts from public.outbox_events e
          where e.event_type = t.event_type and e.lane in ('timed', 'held') and e.lane = l.lane and e.due_at <= p_now
          order by e.due_at limit 400) d
        where d.attempts >= t.max_attempts
        union all
        -- A lease that ran out on the only attempt there is; no index may know of first attempts.
        select r.id, r.created_at from (
          select e.id, e.created_at, e.attempts, e.tries from public.outbox_events e
          where t.max_attempts = 1 and e.event_type = t.event_type and e.lane = 'ready' and e.at_rest is null and e.crashes < 3
            and e.available_at <= p_now
          order by e.created_at, e.id limit 400) r
        where r.attempts > 0 and r.tries is null) e
      order by e.created_at, e.id limit 100) f;
  end if;
  if v_rows is null then
    return 0;
  end if;
  with held as materialized (
    select e.id from public.outbox_events e
    where e.id = any (v_rows) and e.at_rest is null and e.available_at <= p_now
      and e.attempts >= (select t.max_attempts from unnest(p_event_types, p_limits) t(event_type, max_attempts)
                         where t.event_type = e.event_type)
    for no key update skip locked
  ), discarded as (
    update public.outbox_events e
    set status = 'discarded', lane = null, blocked_by = null,
      error = left(coalesce(e.error, '') || ' | max_attempts_exhausted_at_claim', 2000),
      metadata = e.metadata || jsonb_build_object(
        'discardReason', 'max_attempts', 'discardedAt', p_now, 'finalAttempts', e.attempts)
    from held h where e.id = h.id
    returning e.id
  )
  select array_agg(d.id) into v_rows from discarded d;
  if v_rows is not null then
    perform public.outbox_after_end(v_rows);
  end if;
  return coalesce(cardinality(v_rows), 0);
end $$;

-- What follows when rows end: a discarded one whose type halts on discard stops its aggregate, and whoever was
-- filed behind any of them is let go.
create function public.outbox_after_end(p_event_ids uuid[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  insert into public.outbox_halted_aggregates (aggregate_type, aggregate_id, event_id, event_type, reason)
  select e.aggregate_type, e.aggregate_id, e.id, e.event_type, e.metadata ->> 'discardReason'
  from public.outbox_events e join public.outbox_event_policies p using (event_type)
  where e.id = any (p_event_ids) and e.at_rest = 'discarded' and p.on_discard = 'halt'
  order by e.aggregate_type, e.aggregate_id, e.created_at
  on conflict do nothing;
  perform public.outbox_unblock(array_agg(e.aggregate_type), array_agg(e.aggregate_id), array_agg(e.event_type))
  from public.outbox_events e where e.id = any (p_event_ids) and e.waited
  having count(*) > 0;
end $$;

-- Files blocked rows behind what blocks them. The blocker is locked and marked as waited on in the same step: had
-- it been ended meanwhile, it would not be found active, and whoever ends it later sees the mark. Rows whose
-- blocker is busy with someone else stay where they are, for the next look. Returns how many were filed.
create function public.outbox_park(p_event_ids uuid[], p_exempt text[]) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_ids uuid[];
  v_blockers uuid[];
  v_blocked_by text[];
  v_held uuid[];
  v_parked integer;
begin
  with mine as materialized (
    -- What another claim is parking at this moment is left to it: two that waited for each other's rows could deadlock.
    select e.id, e.created_at, e.aggregate_type, e.aggregate_id, e.event_type
    from unnest(p_event_ids) k(id) join public.outbox_events e on e.id = k.id
    where e.at_rest is null and e.lane in ('ready', 'timed', 'held', 'barred')
      and e.available_at <= clock_timestamp()  -- or somebody whom the blocker does not concern has claimed it meanwhile
    for no key update of e skip locked
  )
  select array_agg(y.id), array_agg(coalesce(own.id, near.id, halt.event_id)),
    array_agg(case when own.id is null then coalesce(near.event_type, '') end)
  into v_ids, v_blockers, v_blocked_by
  from mine y
  left join lateral (
    select o.id from public.outbox_events o
    where o.aggregate_type = y.aggregate_type and o.aggregate_id = y.aggregate_id
      and o.at_rest is null and o.lane is distinct from 'queued'
      and (o.created_at, o.id) < (y.created_at, y.id) and o.event_type = y.event_type
    order by o.created_at, o.id limit 1) own on true
  -- The nearest of the older ones, so that ending one frees one row and not all that stand behind it.
  left join lateral (
    select o.id, o.event_type from public.outbox_events o
    where o.aggregate_type = y.aggregate_type and o.aggregate_id = y.aggregate_id
      and o.at_rest is null and o.lane is distinct from 'queued'
      and (o.created_at, o.id) < (y.created_at, y.id) and o.event_type <> all (p_exempt)
    order by o.created_at desc, o.id desc limit 1) near on own.id is null
  left join public.outbox_halted_aggregates halt
    on halt.aggregate_type = y.aggregate_type and halt.aggregate_id = y.aggregate_id
      and own.id is null and near.id is null;

  with held as materialized (
    select b.id from public.outbox_events b
    where b.id in (select u.id from unnest(v_blockers) u(id)) and b.at_rest is null
    for no key update skip locked
  ), marked as (
    -- Marked once more where it is marked already: a lock alone would leave no trace, and a transaction under an older
    -- snapshot could end the blocker without seeing who stands behind it. So that one fails to serialize.
    update public.outbox_events b set waited = true from held h where b.id = h.id
  ), halts as materialized (
    select h.event_id from public.outbox_halted_aggregates h
    where h.event_id in (select u.id from unnest(v_blockers) u(id))
    for no key update skip locked
  )
  select array_agg(x.id) into v_held from (select h.id from held h union all select h.event_id from halts h) x;

  update public.outbox_events e
  set lane = case when t.blocked_by is null then 'queued' else 'barred' end, blocked_by = t.blocked_by
  from unnest(v_ids, v_blockers, v_blocked_by) t(id, blocker, blocked_by)
  left join public.outbox_events b on b.id = t.blocker
  where e.id = t.id
    -- A hand may have moved the blocker elsewhere before it was locked.
    and (t.blocked_by = '' or (b.created_at, b.id) < (e.created_at, e.id)
      and (b.aggregate_id, b.aggregate_type, b.event_type) = (e.aggregate_id, e.aggregate_type, coalesce(t.blocked_by, e.event_type)))
    -- "is true" keeps this a hashed look-up; as a join it would be a nested loop, with hash joins switched off.
    and (t.blocker in (select h.id from unnest(v_held) h(id))) is true;
  get diagnostics v_parked = row_count;
  return v_parked;
end $$;

-- migrate:down
drop function public.outbox_park(uuid[], text[]);
drop function public.outbox_after_end(uuid[]);
drop function public.outbox_discard_exhausted(text[], integer[], timestamptz, uuid[]);
