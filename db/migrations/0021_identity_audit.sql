-- migrate:up

-- Every change of rights, written by triggers in the transaction of the change, whichever way it came. No foreign keys: the
-- record outlives whom it is about.
create table public.identity_audit (
  id uuid primary key default gen_random_uuid(),
  at timestamptz not null default clock_timestamp(),
  action text not null
    constraint identity_audit_action_check check (action in ('grant', 'revoke', 'disable', 'enable', 'invite', 'withdraw')),
  path text not null,
  actor_id uuid,
  target_id uuid not null,
  reason text
);
create index identity_audit_target_idx on public.identity_audit (target_id, at);

-- Every refusal, in a table of its own: anyone who can sign in can make refusals, so they may be deleted after 90 days.
create table public.identity_refusals (
  id uuid primary key default gen_random_uuid(),
  at timestamptz not null default clock_timestamp(),
  refusal text not null,
  path text not null,
  actor_id uuid,
  target_id uuid,
  reason text
);
create index identity_refusals_actor_idx on public.identity_refusals (actor_id, at);

create function public.identity_append_only() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using errcode = 'ID020', message = 'identity_append_only',
    detail = format('%s of public.%s', tg_op, tg_table_name);
end $$;

create trigger identity_audit_append_only before update or delete or truncate on public.identity_audit
for each statement execute function public.identity_append_only();
create trigger identity_refusals_append_only before update or truncate on public.identity_refusals
for each statement execute function public.identity_append_only();
create trigger identity_refusals_kept before delete on public.identity_refusals
for each row when (old.at > clock_timestamp() - interval '90 days')
execute function public.identity_append_only();

-- Records a refusal and returns it.
create function public.identity_refuse(
  p_actor uuid, p_target uuid, p_reason text, p_path text, p_refusal text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into public.identity_refusals (refusal, path, actor_id, target_id, reason)
  values (p_refusal, p_path, p_actor, p_target, left(p_reason, 2000));
  return p_refusal;
end $$;

-- Passes 'done' on and raises a refusal as an error with a SQLSTATE of its own. The error takes the record of the refusal
-- along with the rest of the transaction: callers who want it kept look at the outcome instead.
create function public.identity_require(p_outcome text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_outcome = 'done' then
    return p_outcome;
  end if;
  raise exception using message = p_outcome, errcode = case p_outcome
    when 'last_active_human_admin' then 'ID001'
    when 'last_admin_lockout' then 'ID002'
    when 'self_revoke_forbidden' then 'ID003'
    when 'machine_actor_revoke_forbidden' then 'ID004'
    when 'target_not_found' then 'ID005'
    when 'target_not_active' then 'ID006'
    when 'forbidden' then 'ID007'
    when 'already_bootstrapped' then 'ID010'
    when 'already_admin' then 'ID011'
    when 'human_required' then 'ID012'
    when 'invitation_invalid' then 'ID013'
    when 'principal_exists' then 'ID014'
    when 'principal_not_found' then 'ID015'
    when 'principal_disabled' then 'ID016'
    else 'P0001' end;
end $$;

-- These functions, and those of the files that follow, run with their owner's rights and believe the actor they are told.
-- They are for the application's role, not for everyone who can connect.
revoke execute on function
  public.identity_append_only(), public.identity_refuse(uuid, uuid, text, text, text), public.identity_require(text)
from public;

-- migrate:down
drop function public.identity_require(text);
drop function public.identity_refuse(uuid, uuid, text, text, text);
drop table public.identity_refusals;
drop table public.identity_audit;
drop function public.identity_append_only();
