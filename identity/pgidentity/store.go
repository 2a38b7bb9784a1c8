// Package pgidentity keeps principals, admin rights, access tokens, invitations and their audit in Postgres, as a gateway
// and invitation store for package identity.
//
//	store, err := pgidentity.New(pool)
//	admins, err := identity.New(identity.Config{Gateway: store, Invitations: store})
//
// At least one active human admin always remains, at every isolation level and whichever way rights are taken: by this
// package, by the SQL functions beneath it or by plain SQL, which a trigger guards. What a removal brings with it (tokens
// ended, invitations voided, a row in identity_audit, an outbox event identity.admin.revoked of the aggregate
// identity.admin with the target's id) commits with it or not at all, and so does the record of a refusal in
// identity_refusals. Only strangers, whose token or secret is unknown, leave no record.
//
// Serialization failures and deadlocks are retried inside, see [ErrContention]. A wait for a lock ends after 5 seconds
// with an error. If the connection breaks while a change commits, the error cannot say whether it did; asking again is
// safe, since a second removal finds no admin.
//
// The role of the pool needs what "pgrail grant identity ROLE" gives: EXECUTE on the functions that this package calls and
// SELECT on identity_admins, neither of which is open to PUBLIC. The functions believe the actor they are told, so that
// role must be the application's own.
package pgidentity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"reflect"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/internal/db"
)

// DB is a *pgxpool.Pool, or a *pgx.Conn for a program that does one thing at a time. It is no transaction: a change may
// have to be tried again from its beginning.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// Store is safe for concurrent use if its DB is.
type Store struct{ db DB }

var (
	_ identity.Gateway         = (*Store)(nil)
	_ identity.RefusalRecorder = (*Store)(nil)
	_ identity.InvitationStore = (*Store)(nil)
)

// New fails with an [ArgumentError] if there is no database.
func New(database DB) (*Store, error) {
	if value := reflect.ValueOf(database); !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, &ArgumentError{Field: "database", Rule: "must be set"}
	}
	return &Store{db: database}, nil
}

// ResolveToken answers whose token it is, or [uuid.Nil] for one that is unknown, expired or ended, or whose principal is
// disabled. Its errors are [identity.LookupError].
func (s *Store) ResolveToken(ctx context.Context, accessToken string) (user uuid.UUID, err error) {
	err = retry(ctx, func() error {
		user, err = db.New(s.db).IdentityAuthenticate(ctx, db.IdentityAuthenticateParams{Hash: hash(accessToken)})
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return uuid.Nil, nil
	case err != nil:
		return uuid.Nil, &identity.LookupError{Err: err}
	}
	return user, nil
}

// AdminRole answers "admin" for an active principal with admin rights, else "". Its errors are [identity.LookupError].
func (s *Store) AdminRole(ctx context.Context, user uuid.UUID) (role string, err error) {
	err = retry(ctx, func() error {
		role, err = db.New(s.db).IdentityAdminRole(ctx, db.IdentityAdminRoleParams{PrincipalID: user})
		return err
	})
	if err != nil {
		return "", &identity.LookupError{Err: err}
	}
	return role, nil
}

// RevokeAdmin ends the target's admin rights and all that hangs on them. A refusal is an [identity.RevokeError] with its
// token. Of the reason, 2,000 characters are kept.
func (s *Store) RevokeAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error {
	return s.change(ctx, func(q *db.Queries) (string, error) {
		return q.IdentityRevoke(ctx, db.IdentityRevokeParams{ActorID: actor, TargetID: target, Reason: clean(reason)})
	})
}

// RemoveAdmin is RevokeAdmin, but a target that is only invited has its open invitations voided instead.
func (s *Store) RemoveAdmin(ctx context.Context, actor, target uuid.UUID, reason string) error {
	return s.change(ctx, func(q *db.Queries) (string, error) {
		return q.IdentityRemove(ctx, db.IdentityRemoveParams{ActorID: actor, TargetID: target, Reason: clean(reason)})
	})
}

// RecordRefusal records a refusal that [identity.Service] decided before it asked this store.
func (s *Store) RecordRefusal(ctx context.Context, actor, target uuid.UUID, reason, code string) error {
	named := &target
	if target == uuid.Nil {
		named = nil
	}
	return s.change(ctx, func(q *db.Queries) (string, error) {
		_, err := q.IdentityRefuse(ctx, db.IdentityRefuseParams{ActorID: actor, TargetID: named, Reason: clean(reason), Refusal: code})
		return done, err
	})
}

// hash is all that the database ever sees of a token. The tokens are random and long, so a plain hash is as good as a slow one.
func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

func newSecret() string { return rand.Text() }

// clean leaves out what Postgres cannot store as text.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}
