-- name: IdentityCreatePrincipal :one
-- IdentityCreatePrincipal answers done or principal_exists.
SELECT public.identity_create_principal(
  p_id => @id::uuid, p_kind => @kind::text, p_name => @name::text)::text AS outcome;

-- name: IdentityBootstrap :one
-- IdentityBootstrap makes the first admin: done or a refusal.
SELECT public.identity_bootstrap(p_principal => @principal_id::uuid)::text AS outcome;

-- name: IdentityGrant :one
-- IdentityGrant answers done or a refusal.
SELECT public.identity_grant(
  p_actor => @actor_id::uuid, p_target => @target_id::uuid, p_reason => nullif(@reason::text, ''))::text AS outcome;

-- name: IdentityInvite :one
-- IdentityInvite answers done or a refusal.
SELECT public.identity_invite(
  p_actor => @actor_id::uuid, p_invitee => @invitee_id::uuid,
  p_hash => @hash::bytea, p_ttl_seconds => @ttl_seconds::integer)::text AS outcome;

-- name: IdentityAccept :one
-- IdentityAccept answers done or a refusal, and whom the invitation is for; no row when there is none with that hash.
SELECT a.outcome::text AS outcome, a.principal_id::uuid AS principal_id
FROM public.identity_accept(p_hash => @hash::bytea) AS a;

-- name: IdentityRevoke :one
-- IdentityRevoke answers done or a refusal.
SELECT public.identity_revoke(
  p_actor => @actor_id::uuid, p_target => @target_id::uuid, p_reason => nullif(@reason::text, ''))::text AS outcome;

-- name: IdentityRemove :one
-- IdentityRemove answers done or a refusal.
SELECT public.identity_remove(
  p_actor => @actor_id::uuid, p_target => @target_id::uuid, p_reason => nullif(@reason::text, ''))::text AS outcome;

-- name: IdentityDisable :one
-- IdentityDisable answers done or a refusal.
SELECT public.identity_disable(
  p_actor => @actor_id::uuid, p_target => @target_id::uuid, p_reason => nullif(@reason::text, ''))::text AS outcome;

-- name: IdentityRefuse :one
-- IdentityRefuse records a refusal that was decided before any other function was asked.
SELECT public.identity_refuse(
  p_actor => @actor_id::uuid, p_target => sqlc.narg('target_id')::uuid, p_reason => nullif(@reason::text, ''),
  p_path => 'request', p_refusal => @refusal::text)::text AS refusal;

-- name: IdentityIssueToken :one
-- IdentityIssueToken answers done or a refusal.
SELECT public.identity_issue_token(
  p_principal => @principal_id::uuid, p_hash => @hash::bytea, p_ttl_seconds => @ttl_seconds::integer)::text AS outcome;

-- name: IdentityEndToken :one
-- IdentityEndToken is true if the token was good until now.
SELECT public.identity_end_token(p_hash => @hash::bytea)::boolean AS ended;

-- name: IdentityAuthenticate :one
-- IdentityAuthenticate finds whose token it is; no row when it is no good.
SELECT a.principal_id::uuid AS principal_id
FROM public.identity_authenticate(p_hash => @hash::bytea) AS a(principal_id);

-- name: IdentityAdminRole :one
-- IdentityAdminRole is admin or empty.
SELECT public.identity_admin_role(p_principal => @principal_id::uuid)::text AS role;

-- name: IdentityListAdmins :many
-- IdentityListAdmins lists everyone with admin rights, oldest grant first.
SELECT a.*
FROM public.identity_admins AS a
ORDER BY a.granted_at, a.principal_id;
