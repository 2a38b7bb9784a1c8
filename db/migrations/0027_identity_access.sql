-- migrate:up

-- Lets an active principal sign in with the secret behind the hash for a while. Its expired tokens go at the same time, so
-- that nobody has to sweep.
--
-- The epoch is read together with the state of the account: a removal that either did not see leaves the token dead. A lock
-- would have sign-ins wait for removals, and above READ COMMITTED it would not show the removal this token.
create function public.identity_issue_token(p_principal uuid, p_hash bytea, p_ttl_seconds integer) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_refusal text;
  v_epoch bigint;
begin
  select case when p.disabled_at is not null then 'principal_disabled' end, p.access_epoch into v_refusal, v_epoch
  from public.identity_principals p where p.id = p_principal;
  if not found then
    v_refusal := 'principal_not_found';
  end if;
  if v_refusal is not null then
    return public.identity_refuse(null, p_principal, null, 'token', v_refusal);
  end if;
  delete from public.identity_access_tokens t where t.principal_id = p_principal and t.expires_at <= clock_timestamp();
  insert into public.identity_access_tokens (hash, principal_id, expires_at, epoch)
  values (p_hash, p_principal, public.identity_expiry(p_ttl_seconds), v_epoch);
  return 'done';
end $$;

-- The active principal whose token is good now, or no row.
create function public.identity_authenticate(p_hash bytea) returns setof uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  select t.principal_id
  from public.identity_access_tokens t join public.identity_principals p on p.id = t.principal_id and p.access_epoch = t.epoch
  where t.hash = p_hash and t.ended_at is null and t.expires_at > clock_timestamp() and p.disabled_at is null;
end $$;

-- Signs out. True if the token was good until now.
create function public.identity_end_token(p_hash bytea) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update public.identity_access_tokens t set ended_at = clock_timestamp()
  where t.hash = p_hash and t.ended_at is null and t.expires_at > clock_timestamp();
  return found;
end $$;

-- Everyone with admin rights, disabled ones too.
create view public.identity_admins as
select p.id as principal_id, p.name, p.kind, p.disabled_at, m.granted_at, m.granted_by, m.grant_path
from public.identity_memberships m join public.identity_principals p on p.id = m.principal_id
where m.ended_at is null;

-- 'admin' or ''.
create function public.identity_admin_role(p_principal uuid) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return case when exists (
    select from public.identity_memberships m join public.identity_principals p on p.id = m.principal_id
    where m.principal_id = p_principal and m.ended_at is null and p.disabled_at is null) then 'admin' else '' end;
end $$;

revoke execute on function
  public.identity_issue_token(uuid, bytea, integer), public.identity_authenticate(bytea),
  public.identity_end_token(bytea), public.identity_admin_role(uuid)
from public;

-- migrate:down
drop function public.identity_admin_role(uuid);
drop view public.identity_admins;
drop function public.identity_end_token(bytea);
drop function public.identity_authenticate(bytea);
drop function public.identity_issue_token(uuid, bytea, integer);
