-- migrate:up

-- Ends many events in one statement and answers per event, in the order asked: processed; repeated, when this very
-- token has ended it before (the reply of the first try got lost); lost, when the token no longer holds it.
create function public.outbox_mark_processed_many(p_event_ids uuid[], p_claim_tokens text[], p_metadata jsonb default '{}')
returns setof public.outbox_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_metadata jsonb := coalesce(p_metadata, '{}');
  v_done uuid[];
  v_tokens text[];
  v_waited uuid[];
begin
  perform public.outbox_check_pairs(p_event_ids, p_claim_tokens, 'outbox_mark_processed_invalid_input');
  perform public.outbox_check_object(v_metadata, 'outbox_mark_processed_invalid_metadata');
  with asked as materialized (
    -- In id order, so that two overlapping calls cannot lock in opposite directions.
    select distinct a.id, a.token from unnest(p_event_ids, p_claim_tokens) a(id, token) order by a.id
  ), done as (
    update public.outbox_events e
    set status = 'processed', processed_at = v_now, error = null, lane = null, blocked_by = null,
      metadata = case when v_metadata = '{}' then e.metadata else e.metadata || v_metadata end
    from asked a
    where e.id = a.id and e.status = 'processing' and e.metadata ->> 'claimToken' = a.token
    returning e.id, a.token, e.waited
  )
  select array_agg(d.id), array_agg(d.token), array_agg(d.id) filter (where d.waited)
  into v_done, v_tokens, v_waited from done d;
  if v_waited is not null then
    perform public.outbox_after_end(v_waited);
  end if;
  if cardinality(v_done) = cardinality(p_event_ids) then
    return query select u.id, 'processed' from unnest(p_event_ids) u(id);
    return;
  end if;
  return query
  select a.id, case when (a.id, a.token) in (select d.id, d.token from unnest(v_done, v_tokens) d(id, token))
    then 'processed' else coalesce((
    select case when e.at_rest = 'processed' and e.metadata ->> 'claimToken' = a.token then 'repeated' end
    from public.outbox_events e where e.id = a.id), 'lost') end
  from unnest(p_event_ids, p_claim_tokens) with ordinality a(id, token, ord)
  order by a.ord;
end $$;

create function public.outbox_mark_processed(p_event_id uuid, p_claim_token text, p_metadata jsonb default '{}')
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (select m.outcome = 'processed'
          from public.outbox_mark_processed_many(array[p_event_id], array[p_claim_token], p_metadata) m);
end $$;

-- Gives claimed events back unstarted: the attempt is refunded. Returns how many were still held.
create function public.outbox_release_unprocessed(p_event_ids uuid[], p_claim_tokens text[], p_delay_seconds integer default 0)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_delay constant integer := greatest(0, least(3600, coalesce(p_delay_seconds, 0)));
  v_released integer;
begin
  perform public.outbox_check_pairs(p_event_ids, p_claim_tokens, 'outbox_release_invalid_input');
  update public.outbox_events e
  set status = 'pending', attempts = greatest(0, e.attempts - 1),
    available_at = v_now + make_interval(secs => v_delay),
    lane = case when v_delay > 0 then 'timed' else 'ready' end, blocked_by = null
  from (select distinct u.id, u.token from unnest(p_event_ids, p_claim_tokens) u(id, token) order by u.id) a
  where e.id = a.id and e.status = 'processing' and e.metadata ->> 'claimToken' = a.token;
  get diagnostics v_released = row_count;
  return v_released;
end $$;

-- Moves the end of the lease to now plus p_visibility_seconds (1 to 3600) and returns the events still held. One whose lease
-- had run out is not where it was filed behind another since, or another of its aggregate is in flight.
create function public.outbox_extend_leases(p_event_ids uuid[], p_claim_tokens text[], p_visibility_seconds integer default 300)
returns setof uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_until constant timestamptz := v_now + make_interval(secs => greatest(1, least(3600, coalesce(p_visibility_seconds, 300))));
begin
  perform public.outbox_check_pairs(p_event_ids, p_claim_tokens, 'outbox_extend_invalid_input');
  return query
  update public.outbox_events e
  set available_at = v_until, lane = 'held', blocked_by = null
  from (select distinct u.id, u.token from unnest(p_event_ids, p_claim_tokens) u(id, token) order by u.id) a
  where e.id = a.id and e.status = 'processing' and e.metadata ->> 'claimToken' = a.token
    and (e.lane in ('queued', 'barred')) is not true
    and (e.available_at > v_now or not exists (
      select from public.outbox_events o
      where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.id <> e.id
        and o.at_rest is null and o.lane is distinct from 'queued' and o.status = 'processing' and o.available_at > v_now))
  returning e.id;
end $$;

create function public.outbox_check_pairs(p_event_ids uuid[], p_claim_tokens text[], p_message text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_event_ids is null or p_claim_tokens is null or cardinality(p_event_ids) <> cardinality(p_claim_tokens) then
    raise exception using errcode = '22023', message = p_message;
  end if;
end $$;

create function public.outbox_check_object(p_value jsonb, p_message text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if jsonb_typeof(p_value) <> 'object' then
    raise exception using errcode = '22023', message = p_message;
  end if;
end $$;

-- migrate:down
drop function public.outbox_extend_leases(uuid[], text[], integer);
drop function public.outbox_release_unprocessed(uuid[], text[], integer);
drop function public.outbox_mark_processed(uuid, text, jsonb);
drop function public.outbox_mark_processed_many(uuid[], text[], jsonb);
drop function public.outbox_check_object(jsonb, text);
drop function public.outbox_check_pairs(uuid[], text[], text);
