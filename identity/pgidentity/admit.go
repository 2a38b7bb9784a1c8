package pgidentity

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
)

// Kind is what a principal is.
type Kind string

// The kinds. Machines may hold admin rights, but cannot revoke those of others and do not count as an admin that remains.
const (
	Human   Kind = "human"
	Machine Kind = "machine"
)

// Principal is someone or something that can act.
type Principal struct {
	ID   uuid.UUID // [uuid.Nil] has one chosen
	Kind Kind
	Name string // 1 to 200 characters, not blank
}

// CreatePrincipal adds an active principal without any rights and answers its id. It fails with an [ArgumentError], or
// with [CodePrincipalExists].
func (s *Store) CreatePrincipal(ctx context.Context, p Principal) (uuid.UUID, error) {
	if p.Kind != Human && p.Kind != Machine {
		return uuid.Nil, &ArgumentError{Field: "Principal.Kind", Rule: "must be human or machine"}
	}
	if strings.TrimSpace(p.Name) == "" || utf8.RuneCountInString(p.Name) > 200 || clean(p.Name) != p.Name {
		return uuid.Nil, &ArgumentError{Field: "Principal.Name", Rule: "must have 1 to 200 characters of UTF-8 without NUL, not all blank"}
	}
	if p.ID == uuid.Nil {
		p.ID = uuid.New()
	}
	err := s.change(ctx, func(q *db.Queries) (string, error) {
		return q.IdentityCreatePrincipal(ctx, db.IdentityCreatePrincipalParams{ID: p.ID, Kind: string(p.Kind), Name: p.Name})
	})
	if err != nil {
		return uuid.Nil, err
	}
	return p.ID, nil
}

// BootstrapAdmin makes the first admin, an active human. Of several calls at once exactly one succeeds, and none ever
// after: those fail with [CodeAlreadyBootstrapped].
func (s *Store) BootstrapAdmin(ctx context.Context, principal uuid.UUID) error {
	return s.change(ctx, func(q *db.Queries) (string, error) {
		return q.IdentityBootstrap(ctx, db.IdentityBootstrapParams{PrincipalID: principal})
	})
}

// GrantAdmin gives admin rights to an active principal of either kind. An actor that is no active human admin is refused
// with [identity.TokenForbidden].
func (s *Store) GrantAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error {
	return s.change(ctx, func(q *db.Queries) (string, error) {
		return q.IdentityGrant(ctx, db.IdentityGrantParams{ActorID: actor, TargetID: target, Reason: clean(reason)})
	})
}

// Invite offers admin rights to an active human and answers the secret that takes them up, once and within the time. The
// secret is not kept: send it to the invitee. ttl is 1 second to 366 days, in whole seconds.
func (s *Store) Invite(ctx context.Context, actor, invitee uuid.UUID, ttl time.Duration) (secret string, err error) {
	seconds, err := wholeSeconds(ttl)
	if err != nil {
		return "", err
	}
	secret = newSecret()
	err = s.change(ctx, func(q *db.Queries) (string, error) {
		return q.IdentityInvite(ctx, db.IdentityInviteParams{ActorID: actor, InviteeID: invitee, Hash: hash(secret), TtlSeconds: seconds})
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// AcceptInvitation makes the invitee an admin and answers its id. A secret that is no good fails with
// [CodeInvitationInvalid], also when the inviter is no admin any more.
func (s *Store) AcceptInvitation(ctx context.Context, secret string) (invitee uuid.UUID, err error) {
	err = s.change(ctx, func(q *db.Queries) (string, error) {
		row, err := q.IdentityAccept(ctx, db.IdentityAcceptParams{Hash: hash(secret)})
		if errors.Is(err, pgx.ErrNoRows) {
			return "invitation_invalid", nil
		}
		invitee = row.PrincipalID
		return row.Outcome, err
	})
	if err != nil {
		return uuid.Nil, err
	}
	return invitee, nil
}

// DisablePrincipal closes an account, which may be the actor's own: its tokens end, its invitations are void, and it does
// not count as an admin. The last active human admin is refused with [identity.TokenLastActiveHumanAdmin].
func (s *Store) DisablePrincipal(ctx context.Context, actor, target uuid.UUID, reason string) error {
	return s.change(ctx, func(q *db.Queries) (string, error) {
		return q.IdentityDisable(ctx, db.IdentityDisableParams{ActorID: actor, TargetID: target, Reason: clean(reason)})
	})
}

func wholeSeconds(ttl time.Duration) (int32, error) {
	if ttl < time.Second || ttl > 366*24*time.Hour || ttl%time.Second != 0 {
		return 0, &ArgumentError{Field: "ttl", Rule: "must be 1s to 8784h (366 days) in whole seconds"}
	}
	return int32(ttl / time.Second), nil
}
