-- migrate:up

-- What a change of rights brings with it, as triggers: so it happens in the transaction of the change and whichever way
-- the change came, by the functions of pgrail or by plain SQL.

-- Nothing that the principal held or handed out stays good. The new epoch reaches the tokens that cannot be seen here: those
-- that others are issuing at this moment, and at the higher isolation levels those issued since the snapshot.
create function public.identity_end_access(p_principal uuid) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update public.identity_principals p set access_epoch = p.access_epoch + 1 where p.id = p_principal;
  update public.identity_access_tokens t set ended_at = clock_timestamp()
  where t.principal_id = p_principal and t.ended_at is null;
  update public.identity_invitations i set voided_at = clock_timestamp()
  where (i.inviter_id = p_principal or i.invitee_id = p_principal) and i.accepted_at is null and i.voided_at is null;
end $$;

create function public.identity_membership_began() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into public.identity_audit (action, path, actor_id, target_id, reason)
  values ('grant', new.grant_path, new.granted_by, new.principal_id, new.grant_reason);
  return null;
end $$;

create trigger identity_memberships_began after insert on public.identity_memberships
for each row execute function public.identity_membership_began();

create function public.identity_membership_ended() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ended public.identity_memberships := case tg_op when 'DELETE' then old else new end;
  v_path text := coalesce(v_ended.end_path, 'sql');
begin
  perform public.identity_end_access(v_ended.principal_id);
  insert into public.identity_audit (action, path, actor_id, target_id, reason)
  values ('revoke', v_path, v_ended.ended_by, v_ended.principal_id, v_ended.end_reason);
  -- Rights end once, so their id makes the event one that cannot come twice. The reason stays here: it may be personal.
  perform public.outbox_enqueue(array['identity.admin.revoked'], array[v_ended.id::text],
    array['identity.admin'], array[v_ended.principal_id],
    array[jsonb_build_object('userId', v_ended.principal_id, 'actorId', v_ended.ended_by, 'path', v_path)::text]);
  return null;
end $$;

create trigger identity_memberships_ended after update on public.identity_memberships
for each row when (old.ended_at is null and new.ended_at is not null)
execute function public.identity_membership_ended();
create trigger identity_memberships_deleted after delete on public.identity_memberships
for each row when (old.ended_at is null)
execute function public.identity_membership_ended();

-- Who disabled the account and why goes with the disabling: left on the row, it would be taken for who enables it, or for
-- who disables it the next time by plain SQL.
create function public.identity_principal_enabled() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  new.disabled_by := null;
  new.disable_reason := null;
  return new;
end $$;

create trigger identity_principals_enabled before update on public.identity_principals
for each row when (old.disabled_at is not null and new.disabled_at is null)
execute function public.identity_principal_enabled();

create function public.identity_principal_switched() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_disabled constant boolean := new.disabled_at is not null;
begin
  if v_disabled then
    perform public.identity_end_access(new.id);
  end if;
  insert into public.identity_audit (action, path, actor_id, target_id, reason)
  values (case when v_disabled then 'disable' else 'enable' end,
    case when new.disabled_by is null then 'sql' else 'disable' end, new.disabled_by, new.id, new.disable_reason);
  return null;
end $$;

create trigger identity_principals_switched after update on public.identity_principals
for each row when ((old.disabled_at is null) <> (new.disabled_at is null))
execute function public.identity_principal_switched();

revoke execute on function
  public.identity_end_access(uuid), public.identity_membership_began(), public.identity_membership_ended(),
  public.identity_principal_enabled(), public.identity_principal_switched()
from public;

-- migrate:down
drop trigger identity_principals_switched on public.identity_principals;
drop trigger identity_principals_enabled on public.identity_principals;
drop trigger identity_memberships_deleted on public.identity_memberships;
drop trigger identity_memberships_ended on public.identity_memberships;
drop trigger identity_memberships_began on public.identity_memberships;
drop function public.identity_principal_switched();
drop function public.identity_principal_enabled();
drop function public.identity_membership_ended();
drop function public.identity_membership_began();
drop function public.identity_end_access(uuid);
