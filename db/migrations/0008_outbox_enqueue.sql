-- migrate:up

create type public.outbox_enqueued as (event_id uuid, duplicate boolean, same_payload boolean);

-- The highest stamp given so far, in microseconds since 1970. A sequence, because it has to outlive the transaction
-- that moved it and must not make others wait.
create sequence public.outbox_stamp_seq as bigint;

-- Gives p_count growing stamps, of which it returns the first: the clock's reading, or the number after the last given
-- where the clock stands behind it.
create function public.outbox_stamps(p_count integer) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_first bigint;
begin
  -- One at a time, or the slower of two could set the sequence back below what the other has given. The lock is to
  -- last for this block and not until the transaction ends: rolling the block back drops it, and not what it set.
  begin
    perform pg_advisory_xact_lock(1885827692, 1);  -- 'pgrl'
    select greatest(s.last_value + 1, (date_part('epoch', clock_timestamp()) * 1000000)::bigint)
    into v_first from public.outbox_stamp_seq s;
    perform setval('public.outbox_stamp_seq', v_first + p_count - 1);
    raise sqlstate 'PGR00';
  exception when sqlstate 'PGR00' then
    return v_first;
  end;
end $$;

-- The id of an event stamped with these microseconds; it sorts as the stamp does. Its first half are 48 bits of milliseconds,
-- the version 7 and what is left of the microseconds; the other, 16 digits, is its call's.
create function public.outbox_stamped_id(p_micros bigint, p_call text) returns uuid
language sql immutable parallel safe
return (pg_catalog.lpad(pg_catalog.to_hex((p_micros / 1000 << 16) + 28672 + p_micros % 1000), 16, '0') || p_call)::uuid;

-- Parsed when created, so no search_path can change what it means.
create function public.outbox_aggregate_slot(p_aggregate_type text, p_aggregate_id uuid) returns integer
language sql immutable parallel safe
return (pg_catalog.hashtext(p_aggregate_type) operator(pg_catalog.#) pg_catalog.uuid_hash(p_aggregate_id)) operator(pg_catalog.&) 65535;

-- The rows that a call of outbox_enqueue asks for; the planner puts it in the place of its call.
create function public.outbox_asked(
  p_ids uuid[], p_first_stamp bigint, p_event_types text[], p_idempotency_keys text[], p_aggregate_types text[], p_aggregate_ids uuid[],
  p_payloads text[], p_metadata text[], p_delays_seconds double precision[], p_behind boolean[], p_ahead boolean[])
returns table (
  id uuid, created_at timestamptz, delay interval, event_type text, idempotency_key text, aggregate_type text, aggregate_id uuid,
  payload jsonb, metadata jsonb, lane text, waited boolean)
language sql stable
begin atomic
  select a.id, timestamptz 'epoch' + (p_first_stamp + a.ord - 1) * interval '1 microsecond',
    pg_catalog.make_interval(secs => coalesce(a.delay, 0)), a.event_type, a.key, a.aggregate_type, a.aggregate_id,
    a.payload::jsonb, coalesce(a.metadata, '{}')::jsonb,
    case when coalesce(a.delay, 0) > 0 then 'timed' when a.behind then 'queued' else 'ready' end,
    coalesce(a.ahead and not a.behind, false)
  from unnest(p_ids, p_event_types, p_idempotency_keys, p_aggregate_types, p_aggregate_ids, p_payloads, p_metadata, p_delays_seconds, p_behind, p_ahead)
    with ordinality a(id, event_type, key, aggregate_type, aggregate_id, payload, metadata, delay, behind, ahead, ord)
  -- By key, so that two calls with the same keys in different order do not wait for each other in a circle.
  order by a.key collate "C", a.event_type collate "C", a.ord;
end;

-- Writes events in the caller's transaction and answers per event, in the order given. The arrays run parallel; null
-- metadata is {}, a null delay is 0. A (event type, idempotency key) that exists already is reported with the id
-- of the event that has it and whether that event says the same; it is no error.
--
-- Order: the aggregates are locked until the transaction ends, so whoever enqueues second for one of them waits
-- and is stamped second. Stamps never fall, whatever the clock does.
create function public.outbox_enqueue(
  p_event_types text[], p_idempotency_keys text[], p_aggregate_types text[], p_aggregate_ids uuid[],
  p_payloads text[], p_metadata text[] default null, p_delays_seconds double precision[] default null)
returns setof public.outbox_enqueued
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  v_now timestamptz;
  v_first bigint;
  v_call text;
  v_ids uuid[];
  v_behind boolean[];
  v_ahead boolean[];
  v_inserted uuid[];
  v_answers public.outbox_enqueued[];
  v_count constant integer := coalesce(cardinality(p_event_types), 0);
begin
  if v_count = 0 then
    return;
  end if;
  if coalesce(cardinality(p_idempotency_keys), -1) <> v_count or coalesce(cardinality(p_aggregate_types), -1) <> v_count
    or coalesce(cardinality(p_aggregate_ids), -1) <> v_count or coalesce(cardinality(p_payloads), -1) <> v_count
    or coalesce(cardinality(p_metadata), v_count) <> v_count or coalesce(cardinality(p_delays_seconds), v_count) <> v_count
  then
    raise exception using errcode = '22023', message = 'outbox_enqueue_invalid_input';
  end if;

  perform from public.outbox_aggregate_locks l
  where l.slot in (
    select public.outbox_aggregate_slot(a.aggregate_type, a.aggregate_id)
    from unnest(p_aggregate_types, p_aggregate_ids) a(aggregate_type, aggregate_id))
  order by l.slot for no key update;

  v_first := public.outbox_stamps(v_count);
  v_now := clock_timestamp();
  v_call := '8' || lpad(to_hex(nextval('public.outbox_event_id_seq')), 10, '0') || lpad(to_hex((random() * 1048575)::integer), 5, '0');
  v_ids := array(select public.outbox_stamped_id(s, v_call) from generate_series(v_first, v_first + v_count - 1) s);

  -- Of the events of one kind in one aggregate the first is filed by its time, and the others queue behind it: they
  -- become visible together, so nobody can end the first without seeing the rest. Mostly each is the only one, as counting
  -- hashes tells for less than the window costs.
  if v_count > (
    select count(distinct hashtextextended(a.event_type, 0) # hashtextextended(a.aggregate_type, 1) # uuid_hash_extended(a.aggregate_id, 2))
    from unnest(p_event_types, p_aggregate_types, p_aggregate_ids) a(event_type, aggregate_type, aggregate_id))
  then
    select array_agg(k.behind order by k.ord), array_agg(k.ahead order by k.ord) into v_behind, v_ahead
    from (
      select a.ord, row_number() over kind > 1 as behind, lead(true) over kind as ahead
      from unnest(p_event_types, p_aggregate_types, p_aggregate_ids) with ordinality a(event_type, aggregate_type, aggregate_id, ord)
      window kind as (partition by a.aggregate_id, a.aggregate_type collate "C", a.event_type collate "C" order by a.ord)) k;
  end if;

  -- ON CONFLICT costs a fifth of a call, so many are first written as if none were a duplicate. Not few: such a block takes
  -- a transaction id, and the server keeps no more than 64 of one transaction at hand.
  if v_count >= 500 then
    begin
      insert into public.outbox_events (
        id, created_at, available_at, event_type, idempotency_key, aggregate_type, aggregate_id, payload, metadata, lane, waited)
      select a.id, a.created_at, v_now + a.delay, a.event_type, a.idempotency_key, a.aggregate_type, a.aggregate_id, a.payload, a.metadata, a.lane, a.waited
      from public.outbox_asked(v_ids, v_first, p_event_types, p_idempotency_keys, p_aggregate_types, p_aggregate_ids,
        p_payloads, p_metadata, p_delays_seconds, v_behind, v_ahead) a;
      v_inserted := v_ids;
    exception when unique_violation then
      null;  -- below they are told apart
    end;
  end if;
  if v_inserted is null then
    with inserted as (
      insert into public.outbox_events as e (
        id, created_at, available_at, event_type, idempotency_key, aggregate_type, aggregate_id, payload, metadata, lane, waited)
      select a.id, a.created_at, v_now + a.delay, a.event_type, a.idempotency_key, a.aggregate_type, a.aggregate_id, a.payload, a.metadata, a.lane, a.waited
      from public.outbox_asked(v_ids, v_first, p_event_types, p_idempotency_keys, p_aggregate_types, p_aggregate_ids,
        p_payloads, p_metadata, p_delays_seconds, v_behind, v_ahead) a
      on conflict (event_type, idempotency_key) do nothing
      returning e.id
    )
    select coalesce(array_agg(i.id), '{}') into v_inserted from inserted i;
  end if;
  if cardinality(v_inserted) = v_count then
    return query select a.id, false, true from unnest(v_ids) a(id);
    return;
  end if;
  -- Where the first of a kind was a duplicate, the first one written takes its place ahead of the queue.
  update public.outbox_events e
  set lane = case when e.lane = 'queued' then 'ready' else e.lane end, waited = true
  from (
    select distinct on (a.aggregate_type, a.aggregate_id, a.event_type) a.id, a.nth
    from (
      select u.*, row_number() over (partition by u.aggregate_type, u.aggregate_id, u.event_type order by u.ord) as nth
      from unnest(v_ids, p_event_types, p_aggregate_types, p_aggregate_ids)
        with ordinality u(id, event_type, aggregate_type, aggregate_id, ord)) a
    join unnest(v_inserted) i(id) on i.id = a.id
    order by a.aggregate_type, a.aggregate_id, a.event_type, a.nth) f
  where e.id = f.id and f.nth > 1;
  select array_agg((
    coalesce(i.id, e.id), i.id is null, i.id is not null or e.payload = a.payload::jsonb)::public.outbox_enqueued order by a.ord)
  into v_answers
  from unnest(v_ids, p_event_types, p_idempotency_keys, p_payloads) with ordinality a(id, event_type, key, payload, ord)
  left join unnest(v_inserted) i(id) on i.id = a.id
  left join public.outbox_events e on i.id is null and e.event_type = a.event_type and e.idempotency_key = a.key;
  -- Deleted since: neither is the event written nor is there one that stands for it.
  if exists (select from unnest(v_answers) d where d.event_id is null) then
    raise exception using errcode = '40001', message = 'outbox_enqueue_duplicate_vanished';
  end if;
  return query select d.* from unnest(v_answers) d;
end $$;

-- migrate:down
drop function public.outbox_enqueue(text[], text[], text[], uuid[], text[], text[], double precision[]);
drop function public.outbox_asked(uuid[], bigint, text[], text[], text[], uuid[], text[], text[], double precision[], boolean[], boolean[]);
drop function public.outbox_aggregate_slot(text, uuid);
drop function public.outbox_stamped_id(bigint, text);
drop function public.outbox_stamps(integer);
drop sequence public.outbox_stamp_seq;
drop type public.outbox_enqueued;
