-- migrate:up

-- The claim itself, without the clamps of the contract's form and in no order; one call hands out at most p_limit rows
-- and looks at no more than p_limit + 1000, and past what others hold (up to 5000 rows that wait for it), so its cost does
-- not depend on what waits.
-- p_since passes over ready rows created before that event: for a caller that has just found none there, while a snapshot
-- held open keeps the entries of rows long gone in the index.
-- p_suspects: true hands out only events that must run alone, false none of them, null makes no difference.
-- p_many: from so many rows on they stay in the ready lane, where no index has to learn that they are in flight. Each later
-- claim passes over them, which is nothing beside many. Fewer are filed: handlers that take long make many small claims.
create function public.outbox_claim_events(
  p_event_types text[], p_known_event_types text[], p_limit integer, p_visibility_seconds integer, p_max_attempts integer,
  p_holder uuid default null, p_suspects boolean default null, p_since uuid default null, p_many integer default 128)
returns setof public.outbox_events
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_now_text constant text := to_jsonb(v_now) #>> '{}';
  v_types text[];
  v_limits integer[];
  v_exempt text[];
  v_window integer := p_limit;
  v_exhausted integer;
  v_spent uuid[];
  v_spared uuid[] := '{}';
  v_seen integer;
  v_enough boolean;
  v_free tid[];
  v_taken tid[] := '{}';
  v_many boolean;
  v_blocked uuid[];
  v_parked uuid[] := '{}';
  v_passed integer := 0;
  v_filed integer;
  v_since constant timestamptz := (select e.created_at from public.outbox_events e where e.id = p_since);
  v_after_at timestamptz := '-infinity';
  v_after_id uuid := '00000000-0000-0000-0000-000000000000';
  v_last_at timestamptz;
  v_last_id uuid;
begin
  select array_agg(t.event_type), array_agg(coalesce(p.max_attempts, p_max_attempts)) into v_types, v_limits
  from (select distinct u.event_type from unnest(p_event_types) u(event_type) where btrim(u.event_type) <> '') t
  left join public.outbox_event_policies p using (event_type);
  if v_types is null then
    return;
  end if;
  -- Types whose older rows do not hold up ours: known to be another consumer's, or dormant; never a claimed one.
  select coalesce(array_agg(x.event_type), '{}') into v_exempt from (
    select k.event_type from unnest(p_known_event_types) k(event_type) where btrim(k.event_type) <> ''
    union select d.event_type from public.outbox_dormant_event_types d) x
  where x.event_type <> all (v_types);

  v_exhausted := public.outbox_discard_exhausted(v_types, v_limits, v_now);

  loop
    -- The oldest due rows after the last one seen, by type and from four places, merged; those with nothing older in
    -- their way are locked. Whatever reopens an older row touches the younger ones, so that a claim that did not see it
    -- does not find them where it saw them either.
    with front as materialized (
      select f.tid, f.created_at, f.id, f.aggregate_type, f.aggregate_id, f.event_type,
        f.attempts >= f.max_attempts as spent
      from (
        select r.*, t.max_attempts
        from unnest(v_types, v_limits) t(event_type, max_attempts) cross join lateral (
          select e.ctid as tid, e.created_at, e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.attempts
          from public.outbox_events e
          where e.event_type = t.event_type and e.lane = 'ready' and e.at_rest is null and e.crashes < 3
            and (e.created_at, e.id) > (greatest(v_after_at, v_since), v_after_id) and e.available_at <= v_now
          order by e.created_at, e.id limit v_window) r
        where p_suspects is distinct from true
        union all
        -- What waited for its time, and leases that ran out.
        select d.*, t.max_attempts
        from unnest(v_types, v_limits) t(event_type, max_attempts) cross join lateral (values ('timed'), ('held')) l(lane) cross join lateral (
          select e.ctid as tid, e.created_at, e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.attempts
          from public.outbox_events e
          where e.event_type = t.event_type and e.lane in ('timed', 'held') and e.lane = l.lane and e.due_at <= v_now
            and e.crashes < 3
          order by e.due_at limit greatest(400, v_window)) d
        where p_suspects is distinct from true and (d.created_at, d.id) > (v_after_at, v_after_id)
        union all
        select b.*, t.max_attempts
        from unnest(v_types, v_limits) t(event_type, max_attempts)
        cross join unnest(v_exempt) x(event_type) cross join lateral (
          select e.ctid as tid, e.created_at, e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.attempts
          from public.outbox_events e
          where e.event_type = t.event_type and e.blocked_by = x.event_type and e.lane = 'barred' and e.crashes < 3
            and (e.created_at, e.id) > (v_after_at, v_after_id) and e.available_at <= v_now
          order by e.created_at, e.id limit v_window) b
        where p_suspects is distinct from true
        union all
        select s.*, t.max_attempts
        from unnest(v_types, v_limits) t(event_type, max_attempts) cross join lateral (
          select e.ctid as tid, e.created_at, e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.attempts
          from public.outbox_events e
          where e.event_type = t.event_type and e.crashes >= 3 and e.at_rest is null
            and e.lane in ('ready', 'timed', 'held', 'barred') and (e.lane <> 'barred' or e.blocked_by = any (v_exempt))
            and (e.created_at, e.id) > (v_after_at, v_after_id) and e.available_at <= v_now
          order by e.created_at, e.id limit v_window) s
        where p_suspects is distinct from false
      ) f order by f.created_at, f.id limit v_window
    ), spent as materialized (
      -- A lease that ran out on the last attempt, a retry that another consumer allowed. They go first: the others are left
      -- to the next round.
      select f.id from front f where f.spent and f.id <> all (v_spared)
      order by f.created_at, f.id limit 100 - v_exhausted
    ), judged as materialized (
      select y.tid, y.created_at, y.id,
        exists (
          select from public.outbox_events o
          where o.aggregate_type = y.aggregate_type and o.aggregate_id = y.aggregate_id
            and o.at_rest is null and o.lane is distinct from 'queued'
            and (o.created_at, o.id) < (y.created_at, y.id) and o.event_type <> all (v_exempt))
        or exists (select from public.outbox_events o where o.lane = 'queued') and exists (
          select from public.outbox_events o
          where o.aggregate_type = y.aggregate_type and o.aggregate_id = y.aggregate_id
            and o.event_type = y.event_type and o.lane = 'queued' and (o.created_at, o.id) < (y.created_at, y.id))
        or exists (select from public.outbox_halted_aggregates) and exists (
          select from public.outbox_halted_aggregates h
          where h.aggregate_type = y.aggregate_type and h.aggregate_id = y.aggregate_id) as blocked
      from front y where not y.spent and not exists (select from spent)
    ), wanted as materialized (
      select j.tid, j.created_at, j.id from judged j where not j.blocked
      order by j.created_at, j.id limit p_limit - cardinality(v_taken)
    ), locked as materialized (
      select e.ctid as tid, w.tid as seen
      from wanted w join public.outbox_events e on e.ctid = w.tid
      where e.at_rest is null and e.lane in ('ready', 'timed', 'held', 'barred') and e.available_at <= v_now
      for no key update of e skip locked
    )
    -- Where there are enough, the next round goes on behind the last wanted: others may hold some of them.
    select (select count(*) from front), (select array_agg(s.id) from spent s), n.enough,
      (select array_agg(l.tid) from locked l where l.tid = l.seen),
      (select array_agg(j.id) from judged j where j.blocked and (j.created_at, j.id) <= (last.created_at, last.id)),
      last.created_at, last.id
    into v_seen, v_spent, v_enough, v_free, v_blocked, v_last_at, v_last_id
    from (select count(*) = p_limit - cardinality(v_taken) as enough from wanted) n
    left join lateral (
      select f.created_at, f.id from front f where not n.enough union all
      select w.created_at, w.id from wanted w where n.enough
      order by 1 desc, 2 desc limit 1) last on true;

    if v_spent is not null then
      v_exhausted := v_exhausted + public.outbox_discard_exhausted(v_types, v_limits, v_now, v_spent);
      v_spared := v_spared || v_spent;  -- what others hold
      continue;
    end if;
    v_after_at := coalesce(v_last_at, v_after_at);
    v_after_id := v_last_id;
    v_taken := v_taken || v_free;
    v_parked := v_parked || v_blocked;
    exit when cardinality(v_taken) >= p_limit or v_seen < v_window and not v_enough;
    if cardinality(v_parked) >= 500 then
      -- Enough for one call, unless nothing was found and none of it can be filed, as somebody holds what it waits for:
      -- then the others behind it have their turn.
      exit when v_taken <> '{}';
      v_filed := public.outbox_park(v_parked, v_exempt);
      v_passed := v_passed + cardinality(v_parked);
      v_parked := '{}';
      exit when v_filed > 0 or v_passed >= 5000;
    end if;
    v_window := case when v_enough then p_limit else 500 end;
  end loop;

  v_many := cardinality(v_taken) >= p_many;
  return query
  update public.outbox_events e
  set status = 'processing', attempts = e.attempts + 1, held_by = p_holder, blocked_by = null,
    lane = case when v_many and e.lane = 'ready' and e.status <> 'processing' and e.crashes < 3 then 'ready' else 'held' end,
    available_at = v_now + make_interval(secs => p_visibility_seconds),
    metadata = e.metadata || jsonb_build_object('lastClaimedAt', v_now_text, 'claimToken', gen_random_uuid()::text)
  where e.ctid = any (v_taken)
  returning e.*;
  if v_many then
    update public.outbox_workers w set claimed_until = v_after_at where w.holder = p_holder and w.claimed_until < v_after_at;
  end if;

  if v_parked <> '{}' then
    perform public.outbox_park(v_parked, v_exempt);
  end if;
end $$;

-- The contract's form.
create function public.outbox_claim_batch(
  p_event_types text[],
  p_known_event_types text[] default '{}',
  p_batch_size integer default 25,
  p_visibility_seconds integer default 300,
  p_max_attempts integer default 8)
returns setof public.outbox_events
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(cardinality(p_event_types), 0) = 0 then
    raise exception using errcode = '22023', message = 'outbox_claim_allowlist_required';
  end if;
  return query select c.* from public.outbox_claim_events(
    p_event_types, coalesce(p_known_event_types, '{}'),
    greatest(1, least(100, coalesce(p_batch_size, 25))),
    greatest(300, least(3600, coalesce(p_visibility_seconds, 300))),
    greatest(1, least(20, coalesce(p_max_attempts, 8)))) c
  order by c.created_at, c.id;
end $$;

-- migrate:down
drop function public.outbox_claim_batch(text[], text[], integer, integer, integer);
drop function public.outbox_claim_events(text[], text[], integer, integer, integer, uuid, boolean, uuid, integer);
