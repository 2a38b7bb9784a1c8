-- migrate:up

-- Workers that hold a session can be seen to die: each holds an advisory lock that ends with its connection, and says
-- every few seconds that it lives. Leases stay long; a dead worker's events are taken over within seconds.
create table public.outbox_workers (
  holder uuid primary key,
  event_types text[] not null,
  started_at timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  claimed_until timestamptz not null default '-infinity'
) with (fillfactor = 50);

comment on column public.outbox_workers.claimed_until is
  'Its large claims left their events in the ready lane; none of them was written later than this.';

create function public.outbox_presence_key(p_holder uuid) returns bigint
language sql immutable parallel safe
return pg_catalog.hashtextextended(p_holder::text, 1885827692);

-- Called on the session that is to stand for the worker, and again on each new one. False when a session that has not
-- ended yet still stands for it. A worker that p_claimed before it appeared, or after it was taken for dead, has left no
-- word of how far: then what it has in flight is looked for in all that is ready.
create function public.outbox_appear(p_holder uuid, p_event_types text[], p_claimed boolean default false) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not pg_try_advisory_lock(public.outbox_presence_key(p_holder)) then
    return false;
  end if;
  insert into public.outbox_workers as w (holder, event_types, claimed_until)
  values (p_holder, coalesce(p_event_types, '{}'), case when p_claimed then 'infinity' else '-infinity' end::timestamptz)
  on conflict (holder) do update set event_types = excluded.event_types, seen_at = clock_timestamp();
  return true;
end $$;

-- False when the worker has been declared dead: what it held is no longer its own.
create function public.outbox_heartbeat(p_holder uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update public.outbox_workers w set seen_at = clock_timestamp() where w.holder = p_holder;
  return found;
end $$;

-- A worker that stops leaves nothing to take over.
create function public.outbox_disappear(p_holder uuid) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from public.outbox_workers w where w.holder = p_holder;
end $$;

-- The events of these types that a holder has in flight: the filed ones, and those of its large claims, which stand at the
-- front of the ready lane, none of them written after its claimed_until.
create function public.outbox_in_flight(p_holder uuid, p_event_types text[]) returns setof uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_until constant timestamptz := coalesce((select w.claimed_until from public.outbox_workers w where w.holder = p_holder), 'infinity');
begin
  return query
  select f.id from (select distinct u.event_type from unnest(p_event_types) u(event_type)) t cross join lateral (
    select e.id, e.status, e.held_by from public.outbox_events e
    where e.event_type = t.event_type and e.lane = 'held'
    union all
    select e.id, e.status, e.held_by from public.outbox_events e
    where e.event_type = t.event_type and e.lane = 'ready' and e.at_rest is null and e.crashes < 3 and e.created_at <= v_until) f
  where f.status = 'processing' and f.held_by = p_holder;
end $$;

-- Gives back whatever of the given types the holder has claimed but does not know of, because the reply of a claim got
-- lost after its commit: all it holds except p_known_event_ids. Returns how many.
create function public.outbox_recover_claims(p_holder uuid, p_event_types text[], p_known_event_ids uuid[]) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_recovered integer;
begin
  update public.outbox_events e
  set status = 'pending', attempts = greatest(0, e.attempts - 1), available_at = clock_timestamp(), blocked_by = null,
    lane = 'ready'
  where e.id in (
    select h.id from public.outbox_events h
    where h.id in (select f.id from public.outbox_in_flight(p_holder, p_event_types) f(id))
      and h.id <> all (coalesce(p_known_event_ids, '{}')) and h.status = 'processing' and h.held_by = p_holder
    for no key update skip locked);
  get diagnostics v_recovered = row_count;
  return v_recovered;
end $$;

-- Takes over the events of workers that were silent for p_silent_seconds (at least 1) and whose session has ended: a slow
-- one keeps its lock, one that only lost its session keeps talking. The attempt is refunded, since most of the
-- events were merely near the one that brought the worker down, and the death is counted; after the third in a row an
-- event is to run alone, and when its worker dies then too it is discarded as crashed. Returns how many were taken over.
create function public.outbox_take_over(p_silent_seconds double precision default 10) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_dead record;
  v_rows uuid[];
  v_crashed uuid[];
  v_taken integer := 0;
begin
  for v_dead in
    select w.holder, w.event_types from public.outbox_workers w
    where w.seen_at < v_now - make_interval(secs => greatest(1, coalesce(p_silent_seconds, 10)))
    order by w.holder for update skip locked
  loop
    continue when not pg_try_advisory_xact_lock(public.outbox_presence_key(v_dead.holder));
    select array_agg(h.id) into v_rows from (
      select e.id from public.outbox_events e
      where e.id in (select f.id from public.outbox_in_flight(v_dead.holder, v_dead.event_types) f(id))
        and e.status = 'processing' and e.held_by = v_dead.holder
      -- What somebody has locked by hand stays with the dead one, and has its turn next time.
      order by e.id for no key update of e skip locked) h;
    with ended as (
      update public.outbox_events e
      set status = 'discarded', lane = null, crashes = e.crashes + 1, metadata = e.metadata || jsonb_build_object(
        'discardReason', 'crashed', 'discardedAt', v_now, 'finalAttempts', e.attempts)
      where e.id = any (v_rows) and e.crashes >= 3
      returning e.id)
    select array_agg(d.id) into v_crashed from ended d;
    update public.outbox_events e
    set status = 'pending', attempts = greatest(0, e.attempts - 1), available_at = v_now, crashes = e.crashes + 1,
      lane = 'ready', blocked_by = null
    where e.id = any (v_rows) and e.status = 'processing';
    v_taken := v_taken + coalesce(cardinality(v_rows), 0);
    if v_crashed is not null then
      perform public.outbox_after_end(v_crashed);
    end if;
    delete from public.outbox_workers w
    where w.holder = v_dead.holder
      and not exists (select from public.outbox_in_flight(v_dead.holder, v_dead.event_types));
  end loop;
  return v_taken;
end $$;

-- Whether any event of these types has to run alone.
create function public.outbox_any_suspect(p_event_types text[]) returns boolean
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
begin
  return exists (
    select from public.outbox_events e
    where e.event_type = any (p_event_types) and e.crashes >= 3 and e.at_rest is null
      and e.lane in ('ready', 'timed', 'held', 'barred') and e.available_at <= clock_timestamp());
end $$;

-- Whether any event of these types is due and not filed behind another: a claim that found nothing has then only filed others
-- out of the way, or met what somebody else holds for the moment, and the next one may find more.
create function public.outbox_any_ready(p_event_types text[]) returns boolean
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
begin
  return exists (
    select from unnest(p_event_types) t(event_type) cross join lateral (
      (select from public.outbox_events e
       where e.event_type = t.event_type and e.lane = 'ready' and e.at_rest is null and e.crashes < 3 and e.available_at <= v_now
       order by e.created_at, e.id limit 1)
      union all
      (select from (values ('timed'), ('held')) l(lane) join public.outbox_events e on e.lane = l.lane
       where e.event_type = t.event_type and e.lane in ('timed', 'held') and e.due_at <= v_now and e.crashes < 3 limit 1)) r);
end $$;

-- migrate:down
drop function public.outbox_any_ready(text[]);
drop function public.outbox_any_suspect(text[]);
drop function public.outbox_take_over(double precision);
drop function public.outbox_recover_claims(uuid, text[], uuid[]);
drop function public.outbox_in_flight(uuid, text[]);
drop function public.outbox_disappear(uuid);
drop function public.outbox_heartbeat(uuid);
drop function public.outbox_appear(uuid, text[], boolean);
drop function public.outbox_presence_key(uuid);
drop table public.outbox_workers;
