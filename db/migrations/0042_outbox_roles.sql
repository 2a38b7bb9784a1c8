-- migrate:up

-- What a worker tells producers: whether to send a NOTIFY with the next insert. As functions, so that a worker needs no
-- right on any table. The first is false when they had been asked already.
create function public.outbox_fall_asleep() returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update public.outbox_rail r set asleep = true where not r.asleep;
  return found;
end $$;

create function public.outbox_stay_awake() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update public.outbox_rail r set asleep = false where r.asleep;
end $$;

-- Pruning as workers may do it: one at a time, and nothing that came to rest within the hour, in which producers repeat
-- themselves most. Null where another one is at it.
create function public.outbox_retain(
  p_keep_seconds double precision, p_limit integer default 1000, p_keep_discarded_seconds double precision default null)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_keep_seconds is null or p_keep_seconds < 3600 or p_keep_discarded_seconds < 3600 then
    raise exception using errcode = '22023', message = 'outbox_retain_invalid_input', hint = 'At least 3600 seconds are kept.';
  end if;
  if not pg_try_advisory_xact_lock(hashtextextended('public.outbox_retain', 1885827692)) then
    return null;
  end if;
  return public.outbox_prune(p_keep_seconds, p_limit, p_keep_discarded_seconds);
end $$;

create type public.outbox_right as (kind text, privilege text, object_kind text, object text, columns text[]);

-- The rights of each kind of role, no more than it needs. A producer that writes by plain INSERT names the contract's
-- columns; the rail's own are not for it, and outbox_event_id is what fills in the id. The kinds identity and inbox are for
-- applications with admins and webhooks. Every kind may see which migrations are applied, so that an application can tell
-- at its start that nothing is to be done.
create function public.outbox_rights() returns setof public.outbox_right
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select r.kind, 'EXECUTE', 'FUNCTION', 'public.' || f.name, null::text[]
  from (values
    ('producer', array['outbox_enqueue', 'outbox_event_id']),
    ('worker', array['outbox_claim_batch', 'outbox_claim_events', 'outbox_mark_processed', 'outbox_mark_processed_many',
      'outbox_mark_failed', 'outbox_mark_failed_many', 'outbox_release_unprocessed', 'outbox_extend_leases',
      'outbox_recover_claims', 'outbox_heal', 'outbox_fall_asleep', 'outbox_stay_awake', 'outbox_appear',
      'outbox_heartbeat', 'outbox_disappear', 'outbox_take_over', 'outbox_any_suspect', 'outbox_any_ready', 'outbox_retain', 'outbox_snoozes']),
    ('operator', array['outbox_stats', 'outbox_explain', 'outbox_explain_aggregate', 'outbox_check', 'outbox_overview',
      'outbox_blocked_aggregates', 'outbox_recent', 'outbox_redrive', 'outbox_discard', 'outbox_resume_aggregate',
      'outbox_prune', 'outbox_heal', 'outbox_rights', 'outbox_missing_rights', 'outbox_grantees', 'webhook_inbox_prune']),
    ('identity', array['identity_create_principal', 'identity_bootstrap', 'identity_grant', 'identity_invite', 'identity_accept',
      'identity_revoke', 'identity_revoke_admin', 'identity_remove', 'identity_disable', 'identity_refuse', 'identity_issue_token',
      'identity_end_token', 'identity_authenticate', 'identity_admin_role']),
    ('inbox', array['webhook_inbox_record', 'webhook_inbox_prune'])) r(kind, names)
  cross join lateral unnest(r.names) f(name)
  union all
  select k.kind, o.privilege, o.object_kind, o.object, null
  from unnest(array['producer', 'worker', 'operator', 'identity', 'inbox']) k(kind)
  cross join (values ('USAGE', 'SCHEMA', 'public'), ('SELECT', 'TABLE', 'public.pgrail_schema_migrations'),
    ('SELECT', 'TABLE', 'public.pgrail_schema_migrations_hashes')) o(privilege, object_kind, object)
  union all values
    ('producer', 'INSERT', 'TABLE', 'public.outbox_events', array['id', 'created_at', 'available_at', 'processed_at',
      'aggregate_type', 'aggregate_id', 'event_type', 'idempotency_key', 'status', 'attempts', 'payload', 'error', 'metadata']),
    ('operator', 'SELECT', 'TABLE', 'public.outbox_events', null),
    ('operator', 'SELECT', 'TABLE', 'public.outbox_halted_aggregates', null),
    ('operator', 'SELECT', 'TABLE', 'public.outbox_rail', null),
    ('operator', 'SELECT', 'TABLE', 'public.outbox_workers', null),
    ('operator', 'SELECT', 'SEQUENCE', 'public.outbox_stamp_seq', null),
    ('operator', 'SELECT', 'TABLE', 'public.webhook_inbox_entries', null),
    ('identity', 'SELECT', 'TABLE', 'public.identity_admins', null),
    ('operator', 'SELECT, INSERT, UPDATE, DELETE', 'TABLE', 'public.outbox_event_policies', null),
    ('operator', 'SELECT, INSERT, UPDATE, DELETE', 'TABLE', 'public.outbox_dormant_event_types', null)
$$;

-- Which rights of a kind a role has not got: all of them for a stranger, none after outbox_grant.
create function public.outbox_missing_rights(p_kind text, p_role regrole) returns setof public.outbox_right
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select r.* from public.outbox_rights() r
  where r.kind = p_kind and not case
    when r.object_kind = 'FUNCTION' then has_function_privilege(p_role, r.object::regproc, r.privilege)
    when r.object_kind = 'SCHEMA' then has_schema_privilege(p_role, r.object, r.privilege)
    when r.object_kind = 'SEQUENCE' then has_sequence_privilege(p_role, r.object, r.privilege)
    -- An application may record its migrations elsewhere.
    when to_regclass(r.object) is null then true
    when r.columns is null then (
      select bool_and(has_table_privilege(p_role, r.object, p.privilege)) from unnest(string_to_array(r.privilege, ', ')) p(privilege))
    else (
      select bool_and(has_column_privilege(p_role, r.object, c.name, r.privilege)) from unnest(r.columns) c(name)) end
$$;

create type public.outbox_grantee as (kind text, grantee regrole);

-- Roles to which a kind was granted, by the right that stands for it. A migration that adds to outbox_rights hands
-- the addition out with: select public.outbox_grant(g.kind, g.grantee) from public.outbox_grantees() g.
create function public.outbox_grantees() returns setof public.outbox_grantee
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select m.kind, a.grantee::regrole
  from (values ('producer', 'public.outbox_enqueue'), ('worker', 'public.outbox_claim_events'), ('operator', 'public.outbox_redrive'),
    ('identity', 'public.identity_authenticate'), ('inbox', 'public.webhook_inbox_record')) m(kind, object)
  join pg_proc p on p.oid = m.object::regproc
  cross join lateral aclexplode(p.proacl) a
  where a.grantee <> 0 and a.grantee <> p.proowner
$$;

-- Gives a role the rights of a kind: producer, worker, operator, identity or inbox. One role may have several. Only the
-- owner of the objects can do it.
create function public.outbox_grant(p_kind text, p_role regrole) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_right record;
begin
  if p_role is null or not exists (select from public.outbox_rights() r where r.kind = p_kind) then
    raise exception using errcode = '22023', message = 'outbox_grant_invalid_input';
  end if;
  for v_right in
    select r.* from public.outbox_rights() r where r.kind = p_kind and (r.object_kind <> 'TABLE' or to_regclass(r.object) is not null)
  loop
    execute format('grant %s%s on %s %s to %s', v_right.privilege, ' (' || array_to_string(v_right.columns, ', ') || ')',
      v_right.object_kind, v_right.object, p_role);
  end loop;
  -- Who may not grant is told so by a mere warning where he holds the right himself.
  if exists (select from public.outbox_missing_rights(p_kind, p_role)) then
    raise exception using errcode = '42501', message = 'outbox_grant_not_permitted';
  end if;
end $$;

-- The functions run with their owner's rights: they are for those to whom they were granted, not for everyone who can
-- connect.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid::regprocedure from pg_catalog.pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.proname like 'outbox\_%' and p.proowner = current_user::regrole
  loop
    execute format('revoke execute on function %s from public', v_function);
  end loop;
end $$;

-- migrate:down
drop function public.outbox_grant(text, regrole);
drop function public.outbox_grantees();
drop function public.outbox_missing_rights(text, regrole);
drop function public.outbox_rights();
drop type public.outbox_grantee;
drop type public.outbox_right;
drop function public.outbox_retain(double precision, integer, double precision);
drop function public.outbox_stay_awake();
drop function public.outbox_fall_asleep();

do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid::regprocedure from pg_catalog.pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.proname like 'outbox\_%' and p.proowner = current_user::regrole
  loop
    execute format('grant execute on function %s to public', v_function);
  end loop;
end $$;
