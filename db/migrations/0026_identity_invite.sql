-- migrate:up

-- Offers admin rights to a human. Whoever can show the secret behind the hash within the time takes them up.
create function public.identity_invite(p_actor uuid, p_invitee uuid, p_hash bytea, p_ttl_seconds integer) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_refusal text;
begin
  perform public.identity_lock_admins();
  v_refusal := case when public.identity_actor_refusal(p_actor) is not null then 'forbidden'
    else public.identity_newcomer_refusal(p_invitee, true) end;
  if v_refusal is not null then
    return public.identity_refuse(p_actor, p_invitee, null, 'invite', v_refusal);
  end if;
  insert into public.identity_invitations (hash, inviter_id, invitee_id, expires_at)
  values (p_hash, p_actor, p_invitee, public.identity_expiry(p_ttl_seconds));
  insert into public.identity_audit (action, path, actor_id, target_id) values ('invite', 'invite', p_actor, p_invitee);
  return 'done';
end $$;

create type public.identity_acceptance as (outcome text, principal_id uuid);

-- Takes up an invitation, once. An unknown hash answers no row, and leaves neither a record nor a lock: strangers must not be
-- able to fill a table, or to hold up the admins.
create function public.identity_accept(p_hash bytea) returns setof public.identity_acceptance
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_invitation public.identity_invitations;
  v_refusal text;
begin
  if not exists (select from public.identity_invitations i where i.hash = p_hash) then
    return;
  end if;
  -- Now that it is somebody's, in the order of all who lower the number: first the admins, then the rest.
  perform public.identity_lock_admins();
  select i.* into v_invitation from public.identity_invitations i where i.hash = p_hash for no key update;
  if not found then
    return;
  end if;
  v_refusal := case
    when v_invitation.accepted_at is not null or v_invitation.voided_at is not null
      or v_invitation.expires_at <= clock_timestamp() then 'invitation_invalid'
    else public.identity_newcomer_refusal(v_invitation.invitee_id, true) end;
  if v_refusal is not null then
    return query select public.identity_refuse(v_invitation.invitee_id, v_invitation.invitee_id, null, 'invitation', v_refusal),
      v_invitation.invitee_id;
    return;
  end if;
  update public.identity_invitations i set accepted_at = clock_timestamp() where i.id = v_invitation.id;
  insert into public.identity_memberships (principal_id, granted_by, grant_path)
  values (v_invitation.invitee_id, v_invitation.inviter_id, 'invitation');
  return query select 'done', v_invitation.invitee_id;
end $$;

revoke execute on function
  public.identity_invite(uuid, uuid, bytea, integer), public.identity_accept(bytea)
from public;

-- migrate:down
drop function public.identity_accept(bytea);
drop type public.identity_acceptance;
drop function public.identity_invite(uuid, uuid, bytea, integer);
