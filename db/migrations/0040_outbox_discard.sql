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
    -- In id order, so that two overlapping calls cannot lock in opposite directions. What is in flight is not waited for:
    -- whoever acknowledges it may in turn wait for what is queued behind it, and that be locked here.
    select e.id from public.outbox_events e
    where e.id = any (p_event_ids) and e.at_rest is null and not (e.status = 'processing' and e.available_at > v_now)
    order by e.id for no key update
  ), ended as (
    update public.outbox_events e
    set status = 'discarded', lane = null, blocked_by = null,
      metadata = e.metadata || jsonb_build_object('discardReason', 'operator', 'discardedAt', v_now,
        'finalAttempts', e.attempts, 'discardedBy', p_by, 'discardNote', p_reason)
    from held h
    where e.id = h.id and e.at_rest is null
      and not (e.status = 'processing' and e.available_at > v_now)
    returning e.id
  )
  select coalesce(array_agg(x.id), '{}') into v_discarded from ended x;

  perform public.outbox_unblock(array_agg(e.aggregate_type), array_agg(e.aggregate_id), array_agg(e.event_type))
  from public.outbox_events e where e.id = any (v_discarded) and e.waited
  having count(*) > 0;

  return query
  select a.id, case when a.id = any (v_discarded) then 'discarded' else coalesce((
    select case when e.at_rest is null then 'in_flight' else 'at_rest' end
    from public.outbox_events e where e.id = a.id), 'not_found') end
  from unnest(p_event_ids) with ordinality a(id, ord) order by a.ord;
end $$;

-- migrate:down
drop function public.outbox_discard(uuid[], text, text);
