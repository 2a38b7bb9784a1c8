-- migrate:up

-- Why the actor may not, or null. Asked after identity_lock_admins: what was true before the wait need not be true now.
create function public.identity_actor_refusal(p_actor uuid) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_kind text;
begin
  select p.kind into v_kind
  from public.identity_memberships m join public.identity_principals p on p.id = m.principal_id
  where m.principal_id = p_actor and m.ended_at is null and p.disabled_at is null;
  return case v_kind when 'human' then null when 'machine' then 'machine_actor_revoke_forbidden' else 'forbidden' end;
end $$;

-- Why the target's rights cannot be taken, or null.
create function public.identity_target_refusal(p_target uuid) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from public.identity_principals p where p.id = p_target) then
    return 'target_not_found';
  elsif not exists (
    select from public.identity_memberships m join public.identity_principals p on p.id = m.principal_id
    where m.principal_id = p_target and m.ended_at is null and p.disabled_at is null)
  then
    return 'target_not_active';
  elsif public.identity_is_last_admin(p_target) then
    return 'last_active_human_admin';
  end if;
  return null;
end $$;

-- Takes the admin rights of the target and all that hangs on them, or says why not. Either is on record when the
-- transaction commits: a refusal is an outcome here, not an error, because an error would roll its record back.
create function public.identity_revoke(
  p_actor uuid, p_target uuid, p_reason text default null, p_path text default 'gateway') returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_refusal text;
begin
  perform public.identity_lock_admins();
  v_refusal := coalesce(public.identity_actor_refusal(p_actor),
    case when p_target = p_actor then 'self_revoke_forbidden' end,
    public.identity_target_refusal(p_target));
  if v_refusal is not null then
    return public.identity_refuse(p_actor, p_target, p_reason, p_path, v_refusal);
  end if;
  update public.identity_memberships m
  set ended_at = clock_timestamp(), ended_by = p_actor, end_path = p_path, end_reason = left(p_reason, 2000)
  where m.principal_id = p_target and m.ended_at is null;
  return 'done';
end $$;

-- The same for callers in SQL: the refusal as an error with its own SQLSTATE.
create function public.identity_revoke_admin(
  p_actor uuid, p_target uuid, p_reason text default null, p_path text default 'sql') returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform public.identity_require(public.identity_revoke(p_actor, p_target, p_reason, p_path));
end $$;

-- The invitation store's way: as a revoke, and a target who is only invited yet has its invitations voided.
create function public.identity_remove(p_actor uuid, p_target uuid, p_reason text default null) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
begin
  perform public.identity_lock_admins();
  if public.identity_actor_refusal(p_actor) is null and public.identity_target_refusal(p_target) = 'target_not_active' then
    update public.identity_invitations i set voided_at = clock_timestamp()
    where i.invitee_id = p_target and i.accepted_at is null and i.voided_at is null and i.expires_at > clock_timestamp();
    if found then
      insert into public.identity_audit (action, path, actor_id, target_id, reason)
      values ('withdraw', 'invitations', p_actor, p_target, left(p_reason, 2000));
      return 'done';
    end if;
  end if;
  return public.identity_revoke(p_actor, p_target, p_reason, 'invitations');
end $$;

-- Closes the account of the target, the actor's own too, but not that of the last admin.
create function public.identity_disable(p_actor uuid, p_target uuid, p_reason text default null) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_refusal text;
begin
  perform public.identity_lock_admins();
  v_refusal := coalesce(public.identity_actor_refusal(p_actor), (
    select case when p.disabled_at is not null then 'principal_disabled'
      when public.identity_is_last_admin(p.id) then 'last_active_human_admin' else '' end
    from public.identity_principals p where p.id = p_target), 'principal_not_found');
  if v_refusal <> '' then
    return public.identity_refuse(p_actor, p_target, p_reason, 'disable', v_refusal);
  end if;
  update public.identity_principals p
  set disabled_at = clock_timestamp(), disabled_by = p_actor, disable_reason = left(p_reason, 2000)
  where p.id = p_target;
  return 'done';
end $$;

revoke execute on function
  public.identity_actor_refusal(uuid), public.identity_target_refusal(uuid),
  public.identity_revoke(uuid, uuid, text, text), public.identity_revoke_admin(uuid, uuid, text, text),
  public.identity_remove(uuid, uuid, text), public.identity_disable(uuid, uuid, text)
from public;

-- migrate:down
drop function public.identity_disable(uuid, uuid, text);
drop function public.identity_remove(uuid, uuid, text);
drop function public.identity_revoke_admin(uuid, uuid, text, text);
drop function public.identity_revoke(uuid, uuid, text, text);
drop function public.identity_target_refusal(uuid);
drop function public.identity_actor_refusal(uuid);
