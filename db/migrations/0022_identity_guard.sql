-- migrate:up

-- Locks everyone who counts, in one order, until the transaction ends. Whoever would lower the number waits here for
-- whoever is lowering it: at READ COMMITTED it then sees what is left, at the other levels the server ends it with 40001,
-- because a row that it must lock has changed since its snapshot. Locking the target alone, or a row that nobody
-- changes, would let two removals of different admins pass each other.
--
-- The lock is the one that an UPDATE takes by itself. FOR UPDATE would also hold up sign-ins, which only refer to the row.
create function public.identity_lock_admins() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
begin
  perform from public.identity_counted_admins c order by c.principal_id for no key update;
end $$;

-- Before a statement that may lower the number takes locks of its own in whatever order it finds its rows.
create function public.identity_lock_admins_first() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform public.identity_lock_admins();
  return null;
end $$;

create trigger identity_memberships_lock before update or delete on public.identity_memberships
for each statement execute function public.identity_lock_admins_first();
create trigger identity_principals_lock before update of kind, disabled_at or delete on public.identity_principals
for each statement execute function public.identity_lock_admins_first();

-- True if the principal counts and nobody else does.
create function public.identity_is_last_admin(p_principal uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (select from public.identity_counted_admins c where c.principal_id = p_principal)
    and not exists (select from public.identity_counted_admins c where c.principal_id <> p_principal);
end $$;

-- Runs before each row, so that of several rows in one statement the last one finds the others gone already. Its argument
-- names the column with the principal.
create function public.identity_guard_last_admin() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if public.identity_is_last_admin((to_jsonb(old) ->> tg_argv[0])::uuid) then
    perform public.identity_require('last_admin_lockout');
  end if;
  return case tg_op when 'DELETE' then old else new end;
end $$;

create trigger identity_principals_guard_update before update on public.identity_principals
for each row when (new.kind <> 'human' or new.disabled_at is not null)
execute function public.identity_guard_last_admin('id');
create trigger identity_principals_guard_delete before delete on public.identity_principals
for each row execute function public.identity_guard_last_admin('id');
create trigger identity_memberships_guard_update before update on public.identity_memberships
for each row when (old.ended_at is null and new.ended_at is not null)
execute function public.identity_guard_last_admin('principal_id');
create trigger identity_memberships_guard_delete before delete on public.identity_memberships
for each row when (old.ended_at is null)
execute function public.identity_guard_last_admin('principal_id');

-- Rights that move to another principal or come back to life would pass the audit by.
create function public.identity_membership_fixed() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using errcode = 'ID021', message = 'identity_membership_fixed',
    hint = 'Rights stay with their principal and end once. Insert a new row instead.';
end $$;

create trigger identity_memberships_fixed before update on public.identity_memberships
for each row when (new.id <> old.id or new.principal_id <> old.principal_id or old.ended_at is not null)
execute function public.identity_membership_fixed();

-- A TRUNCATE takes everyone, and at REPEATABLE READ it could not even see whom.
create function public.identity_no_truncate() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  perform public.identity_require('last_admin_lockout');
  return null;
end $$;

create trigger identity_memberships_no_truncate before truncate on public.identity_memberships
for each statement execute function public.identity_no_truncate();
create trigger identity_principals_no_truncate before truncate on public.identity_principals
for each statement execute function public.identity_no_truncate();

revoke execute on function
  public.identity_lock_admins(), public.identity_lock_admins_first(), public.identity_is_last_admin(uuid),
  public.identity_guard_last_admin(), public.identity_membership_fixed(), public.identity_no_truncate()
from public;

-- migrate:down
drop trigger identity_principals_no_truncate on public.identity_principals;
drop trigger identity_memberships_no_truncate on public.identity_memberships;
drop trigger identity_memberships_fixed on public.identity_memberships;
drop trigger identity_memberships_guard_delete on public.identity_memberships;
drop trigger identity_memberships_guard_update on public.identity_memberships;
drop trigger identity_principals_guard_delete on public.identity_principals;
drop trigger identity_principals_guard_update on public.identity_principals;
drop trigger identity_principals_lock on public.identity_principals;
drop trigger identity_memberships_lock on public.identity_memberships;
drop function public.identity_no_truncate();
drop function public.identity_membership_fixed();
drop function public.identity_guard_last_admin();
drop function public.identity_is_last_admin(uuid);
drop function public.identity_lock_admins_first();
drop function public.identity_lock_admins();
