-- migrate:up

-- Whoever can act: people and machines. Applications may give the id that they know the user by.
create table public.identity_principals (
  id uuid primary key default gen_random_uuid(),
  kind text not null
    constraint identity_principals_kind_check check (kind in ('human', 'machine')),
  name text not null
    constraint identity_principals_name_check check (btrim(name) <> '' and char_length(name) <= 200),
  created_at timestamptz not null default clock_timestamp(),
  disabled_at timestamptz,
  disabled_by uuid,
  disable_reason text
    constraint identity_principals_disable_reason_check check (char_length(disable_reason) <= 2000),
  access_epoch bigint not null default 0
);
comment on column public.identity_principals.disabled_at is
  'Null while the principal is active. A disabled one cannot sign in and does not count as an admin.';
comment on column public.identity_principals.access_epoch is
  'How often all access was ended. Only tokens of the present epoch are good.';

-- Admin rights, one row from grant to end. Who and why stand on the row itself, so that the triggers which write the
-- audit need no other source; by plain SQL they may be left out.
create table public.identity_memberships (
  id uuid primary key default gen_random_uuid(),
  principal_id uuid not null references public.identity_principals (id) on delete cascade,
  granted_at timestamptz not null default clock_timestamp(),
  granted_by uuid,
  grant_path text not null default 'sql'
    constraint identity_memberships_grant_path_check check (grant_path in ('bootstrap', 'grant', 'invitation', 'sql')),
  grant_reason text
    constraint identity_memberships_grant_reason_check check (char_length(grant_reason) <= 2000),
  ended_at timestamptz,
  ended_by uuid,
  end_path text
    constraint identity_memberships_end_path_check check (end_path in ('gateway', 'invitations', 'sql')),
  end_reason text
    constraint identity_memberships_end_reason_check check (char_length(end_reason) <= 2000)
);
create unique index identity_memberships_active_key on public.identity_memberships (principal_id)
  where ended_at is null;
-- What makes exactly one of several bootstraps win, at every isolation level.
create unique index identity_memberships_bootstrap_key on public.identity_memberships (grant_path)
  where grant_path = 'bootstrap';

-- Tokens are kept as SHA-256 only: who reads this table cannot sign in with it.
create table public.identity_access_tokens (
  hash bytea primary key
    constraint identity_access_tokens_hash_check check (octet_length(hash) = 32),
  principal_id uuid not null references public.identity_principals (id) on delete cascade,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
    constraint identity_access_tokens_expires_at_finite_check check (isfinite(expires_at)),
  ended_at timestamptz,
  epoch bigint not null
);
create index identity_access_tokens_principal_idx on public.identity_access_tokens (principal_id, expires_at);

-- An offer of admin rights to one principal, taken up by whoever holds the secret behind the hash.
create table public.identity_invitations (
  id uuid primary key default gen_random_uuid(),
  hash bytea not null unique
    constraint identity_invitations_hash_check check (octet_length(hash) = 32),
  inviter_id uuid not null references public.identity_principals (id) on delete cascade,
  invitee_id uuid not null references public.identity_principals (id) on delete cascade,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
    constraint identity_invitations_expires_at_finite_check check (isfinite(expires_at)),
  accepted_at timestamptz,
  voided_at timestamptz,
  constraint identity_invitations_end_check check (accepted_at is null or voided_at is null)
);
create index identity_invitations_inviter_idx on public.identity_invitations (inviter_id)
  where accepted_at is null and voided_at is null;
create index identity_invitations_invitee_idx on public.identity_invitations (invitee_id)
  where accepted_at is null and voided_at is null;

-- The one definition of who counts: active humans with active rights. At least one of them must always remain.
create view public.identity_counted_admins as
select m.principal_id
from public.identity_memberships m join public.identity_principals p on p.id = m.principal_id
where m.ended_at is null and p.disabled_at is null and p.kind = 'human';

-- migrate:down
drop view public.identity_counted_admins;
drop table public.identity_invitations;
drop table public.identity_access_tokens;
drop table public.identity_memberships;
drop table public.identity_principals;
