package shop

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/bcrypt"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identity/pgidentity"
)

const (
	signInLasts = 8 * time.Hour
	inviteLasts = 72 * time.Hour
)

// errNoEntry is the same for a wrong password and for an address that nobody has, so that guessing tells nothing.
var errNoEntry = errors.New("shop: no such address and password")

// Hire makes an account without admin rights, or answers the one that the address has already.
func (s *Shop) Hire(ctx context.Context, name, email, password string) (uuid.UUID, error) {
	if id, _, err := s.account(ctx, email); !errors.Is(err, pgx.ErrNoRows) {
		return id, err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := s.people.CreatePrincipal(ctx, pgidentity.Principal{Kind: pgidentity.Human, Name: name})
	if err != nil {
		return uuid.Nil, err
	}
	_, err = s.pool.Exec(ctx, `INSERT INTO shop.staff (email, password_hash, principal_id) VALUES ($1, $2, $3)`, email, hash, id)
	return id, err
}

// Found makes the first admin. In a shop that has one, or had one, nothing happens.
func (s *Shop) Found(ctx context.Context, founder uuid.UUID) error {
	err := s.people.BootstrapAdmin(ctx, founder)
	if errors.Is(err, &identity.StoreError{Code: pgidentity.CodeAlreadyBootstrapped}) {
		return nil
	}
	return err
}

// signIn answers an access token, or errNoEntry.
func (s *Shop) signIn(ctx context.Context, email, password string) (token string, err error) {
	id, hash, err := s.account(ctx, email)
	if errors.Is(err, pgx.ErrNoRows) {
		hash = nobody // takes as long as a real one
	} else if err != nil {
		return "", err
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || id == uuid.Nil {
		return "", errNoEntry
	}
	return s.people.IssueToken(ctx, id, signInLasts)
}

// nobody is a hash that no password belongs to.
var nobody = []byte("$2a$10$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")

// invite offers admin rights to the account with an address and answers the secret that takes them up. A real shop would
// send the secret to that address instead of showing it to the inviter.
func (s *Shop) invite(ctx context.Context, inviter uuid.UUID, email string) (secret string, err error) {
	invitee, _, err := s.account(ctx, email)
	if errors.Is(err, pgx.ErrNoRows) {
		err = &identity.StoreError{Code: pgidentity.CodePrincipalNotFound, Kind: identity.KindBadRequest}
	}
	if err != nil {
		return "", err
	}
	return s.people.Invite(ctx, inviter, invitee, inviteLasts)
}

func (s *Shop) account(ctx context.Context, email string) (id uuid.UUID, passwordHash []byte, err error) {
	err = s.pool.QueryRow(ctx, `SELECT principal_id, password_hash FROM shop.staff WHERE email = $1`, email).Scan(&id, &passwordHash)
	return id, passwordHash, err
}
