-- migrate:up

-- The database's clock decides when something ends: a duration comes in, never a time.
create function public.identity_expiry(p_ttl_seconds integer) returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_ttl_seconds between 1 and 31622400 then
    return clock_timestamp() + make_interval(secs => p_ttl_seconds);
  end if;
  raise exception using errcode = '22023', message = 'identity_ttl_invalid', hint = 'Allowed are 1 to 31622400 seconds.';
end $$;

create function public.identity_create_principal(p_id uuid, p_kind text, p_name text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into public.identity_principals (id, kind, name) values (p_id, p_kind, p_name)
  on conflict (id) do nothing;
  return case when found then 'done' else 'principal_exists' end;
end $$;

-- Why the principal cannot become an admin, or null.
create function public.identity_newcomer_refusal(p_target uuid, p_human boolean) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return nullif(coalesce((
    select case when p.disabled_at is not null then 'principal_disabled'
      when p_human and p.kind <> 'human' then 'human_required'
      when exists (select from public.identity_memberships m where m.principal_id = p.id and m.ended_at is null)
        then 'already_admin'
      else '' end
    from public.identity_principals p where p.id = p_target), 'principal_not_found'), '');
end $$;

-- Makes the first admin. Of several at once exactly one wins: its row is the only one that the index lets in.
create function public.identity_bootstrap(p_principal uuid) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_refusal text := public.identity_newcomer_refusal(p_principal, true);
begin
  if exists (select from public.identity_counted_admins) then
    v_refusal := 'already_bootstrapped';
  elsif v_refusal is null then
    insert into public.identity_memberships (principal_id, grant_path) values (p_principal, 'bootstrap')
    on conflict do nothing;
    v_refusal := case when not found then 'already_bootstrapped' end;
  end if;
  if v_refusal is not null then
    return public.identity_refuse(null, p_principal, null, 'bootstrap', v_refusal);
  end if;
  return 'done';
end $$;

create function public.identity_grant(p_actor uuid, p_target uuid, p_reason text default null) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_refusal text;
begin
  perform public.identity_lock_admins();
  v_refusal := case when public.identity_actor_refusal(p_actor) is not null then 'forbidden'
    else public.identity_newcomer_refusal(p_target, false) end;
  if v_refusal is not null then
    return public.identity_refuse(p_actor, p_target, p_reason, 'grant', v_refusal);
  end if;
  insert into public.identity_memberships (principal_id, granted_by, grant_path, grant_reason)
  values (p_target, p_actor, 'grant', left(p_reason, 2000));
  return 'done';
end $$;

revoke execute on function
  public.identity_expiry(integer), public.identity_create_principal(uuid, text, text),
  public.identity_newcomer_refusal(uuid, boolean), public.identity_bootstrap(uuid),
  public.identity_grant(uuid, uuid, text)
from public;

-- migrate:down
drop function public.identity_grant(uuid, uuid, text);
drop function public.identity_bootstrap(uuid);
drop function public.identity_newcomer_refusal(uuid, boolean);
drop function public.identity_create_principal(uuid, text, text);
drop function public.identity_expiry(integer);
