-- migrate:up

-- The messages that have been received, by what their sender signed. A row commits together with what the message led
-- to, so there is one exactly if that has happened.
create table public.webhook_inbox_entries (
  source text collate "C" not null
    constraint webhook_inbox_entries_source_nonempty_check check (btrim(source) <> '')
    constraint webhook_inbox_entries_source_length_check check (octet_length(source) <= 255),
  key bytea not null
    constraint webhook_inbox_entries_key_check check (octet_length(key) = 32),
  received_at timestamptz not null default clock_timestamp()
    constraint webhook_inbox_entries_received_at_finite_check check (isfinite(received_at)),
  constraint webhook_inbox_entries_pkey primary key (source, key)
);
comment on column public.webhook_inbox_entries.key is 'SHA-256 of the message''s id, or of its body if the sender signs no id.';

-- What pruning reads: oldest first.
create index webhook_inbox_entries_received_idx on public.webhook_inbox_entries (source, received_at);

-- Records a message in the caller's transaction; the key is 64 hexadecimal digits. False if it had been recorded before.
-- Where another transaction is just recording it, this waits for the outcome: false if that one commits, true if not.
-- The wait is bounded, so that a session that hangs cannot pile up all others behind it.
create function public.webhook_inbox_record(p_source text, p_key text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
begin
  insert into public.webhook_inbox_entries (source, key) values (p_source, decode(p_key, 'hex'))
  on conflict on constraint webhook_inbox_entries_pkey do nothing;
  return found;
end $$;

-- Deletes a source's messages that were received longer ago than asked, oldest first, at most p_limit (1 to 10000) a
-- call, and returns how many. A message delivered again after that counts as a new one.
create function public.webhook_inbox_prune(p_source text, p_keep_seconds double precision, p_limit integer default 1000)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_limit constant integer := greatest(1, least(10000, coalesce(p_limit, 1000)));
  v_deleted integer;
begin
  if p_source is null or p_keep_seconds is null or not p_keep_seconds between 0 and 3155760000 then
    raise exception using errcode = '22023', message = 'webhook_inbox_prune_invalid_input';
  end if;
  delete from public.webhook_inbox_entries e where e.ctid = any (array(
    select p.ctid from public.webhook_inbox_entries p
    where p.source = p_source and p.received_at < v_now - make_interval(secs => p_keep_seconds)
    order by p.received_at limit v_limit for update skip locked));
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;

-- They run with their owner's rights: for the application's role, not for everyone who can connect.
revoke execute on function
  public.webhook_inbox_record(text, text), public.webhook_inbox_prune(text, double precision, integer)
from public;

-- migrate:down
drop function public.webhook_inbox_prune(text, double precision, integer);
drop function public.webhook_inbox_record(text, text);
drop table public.webhook_inbox_entries;
