-- migrate:up

-- How often an event has been snoozed. Anyone may have written into its metadata: what is no number counts as 0.
create function public.outbox_snoozes(p_metadata jsonb) returns numeric
language sql immutable parallel safe
return case when pg_catalog.jsonb_typeof(p_metadata operator(pg_catalog.->) 'snoozeCount') operator(pg_catalog.=) 'number'
  then (p_metadata operator(pg_catalog.->>) 'snoozeCount')::numeric else 0 end;

-- Many unsuccessful ends in one statement, one outcome each: failed, discarded, snoozed or missed. The arrays run
-- parallel; p_outcomes takes retry, discard, snooze. p_reasons names why a discard happened (blank: permanent_error)
-- and p_delays says in seconds how long a retry or snooze waits (negative: by backoff or p_snooze_seconds). An event that
-- has been snoozed p_max_snoozes times, or as often as the policy of its type allows, is discarded instead of once more.
create function public.outbox_mark_failed_many(
  p_event_ids uuid[], p_claim_tokens text[], p_errors text[], p_outcomes text[],
  p_reasons text[] default null, p_delays integer[] default null,
  p_base_delay_seconds integer default 60, p_max_delay_seconds integer default 3600,
  p_max_attempts integer default 8, p_snooze_seconds integer default 300, p_max_snoozes integer default null)
returns setof public.outbox_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_base constant integer := greatest(5, least(3600, coalesce(p_base_delay_seconds, 60)));
  v_cap constant integer := greatest(v_base, least(86400, coalesce(p_max_delay_seconds, 3600)));
  v_limit constant integer := greatest(1, least(20, coalesce(p_max_attempts, 8)));
  v_snooze constant integer := greatest(60, least(3600, coalesce(p_snooze_seconds, 300)));
  v_done public.outbox_outcome[];
  v_tokens text[];
begin
  if p_outcomes is null or exists (
    select from unnest(p_outcomes) o(outcome) where o.outcome is null or o.outcome not in ('retry', 'discard', 'snooze'))
  then
    raise exception using errcode = '22023', message = 'outbox_mark_failed_invalid_outcome';
  end if;
  perform public.outbox_check_pairs(p_event_ids, p_claim_tokens, 'outbox_mark_failed_invalid_input');
  if cardinality(p_outcomes) <> cardinality(p_event_ids) or cardinality(p_errors) <> cardinality(p_event_ids) then
    raise exception using errcode = '22023', message = 'outbox_mark_failed_invalid_input';
  end if;

  with asked as materialized (
    select distinct on (a.id, a.token) a.* from unnest(p_event_ids, p_claim_tokens, p_errors, p_outcomes, p_reasons, p_delays)
      with ordinality a(id, token, error, outcome, reason, delay, ord)
    where a.id is not null
    order by a.id, a.token, a.ord
  ), held as materialized (
    select e.id, a.token, e.attempts, left(a.error, 2000) as error, a.delay,
      public.outbox_snoozes(e.metadata) as snoozes, coalesce(p.max_snoozes, p_max_snoozes) as max_snoozes,
      a.outcome, coalesce(nullif(a.reason, ''), 'permanent_error') as reason, coalesce(p.max_attempts, v_limit) as max_attempts
    from asked a
    join public.outbox_events e on e.id = a.id
    left join public.outbox_event_policies p on p.event_type = e.event_type
    where e.status = 'processing' and e.metadata ->> 'claimToken' = a.token
    for no key update of e
  ), verdict as (
    select h.*,
      case when h.outcome = 'discard' then h.reason
           when h.outcome = 'retry' and h.attempts >= h.max_attempts then 'max_attempts'
           when h.outcome = 'snooze' and h.snoozes >= h.max_snoozes then 'max_snoozes' end as discarded,
      least(v_cap::double precision, v_base * power(2, least(greatest(h.attempts - 1, 0), 16))) as backoff
    from held h
  ), updated as (
    update public.outbox_events e
    -- A handler that returned has not brought its process down.
    set error = v.error, blocked_by = null, crashes = 0,
      status = case when v.discarded is null then 'failed' else 'discarded' end,
      lane = case when v.discarded is null then 'timed' end,
      attempts = case when v.discarded is null and v.outcome = 'snooze' then greatest(0, e.attempts - 1) else e.attempts end,
      available_at = case
        when v.discarded is not null then e.available_at
        when v.delay >= 0 then v_now + make_interval(secs => least(86400, v.delay))
        when v.outcome = 'snooze' then v_now + make_interval(secs => v_snooze)
        else v_now + make_interval(secs => v.backoff * (0.5 + random() / 2)) end,
      metadata = e.metadata || case
        when v.discarded is not null then jsonb_build_object(
          'discardReason', v.discarded, 'discardedAt', v_now, 'finalAttempts', e.attempts)
        when v.outcome = 'snooze' then jsonb_build_object('snoozeCount', v.snoozes + 1, 'lastSnoozedAt', v_now)
        else '{}' end
    from verdict v where e.id = v.id
    returning e.id, v.token, case when v.discarded is not null then 'discarded' when v.outcome = 'snooze' then 'snoozed' else 'failed' end as outcome
  )
  select array_agg((u.id, u.outcome)::public.outbox_outcome), array_agg(u.token) into v_done, v_tokens from updated u;

  perform public.outbox_after_end(array_agg(d.event_id)) from unnest(v_done) d(event_id, outcome)
  where d.outcome = 'discarded' having count(*) > 0;

  return query
  select a.id, coalesce((
    select d.outcome from unnest(v_done, v_tokens) d(event_id, outcome, token)
    where d.event_id = a.id and d.token = a.token), 'missed')
  from unnest(p_event_ids, p_claim_tokens) with ordinality a(id, token, ord)
  order by a.ord;
end $$;

-- The contract's form. Its order of checks: the outcome before the row.
create function public.outbox_mark_failed(
  p_event_id uuid, p_claim_token text, p_error text, p_outcome text default 'retry',
  p_base_delay_seconds integer default 60, p_max_delay_seconds integer default 3600,
  p_max_attempts integer default 8, p_snooze_seconds integer default 300)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (select m.outcome from public.outbox_mark_failed_many(
    array[p_event_id], array[p_claim_token], array[p_error], array[p_outcome], null, null,
    p_base_delay_seconds, p_max_delay_seconds, p_max_attempts, p_snooze_seconds) m);
end $$;

-- migrate:down
drop function public.outbox_mark_failed(uuid, text, text, text, integer, integer, integer, integer);
drop function public.outbox_mark_failed_many(uuid[], text[], text[], text[], text[], integer[], integer, integer, integer, integer, integer);
drop function public.outbox_snoozes(jsonb);
