package pgidentity

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/internal/db"
)

// IssueToken signs an active principal in, once the application has satisfied itself who it is, and answers the access
// token. The token is not kept, only its hash. ttl is 1 second to 366 days, in whole seconds.
func (s *Store) IssueToken(ctx context.Context, principal uuid.UUID, ttl time.Duration) (accessToken string, err error) {
	seconds, err := wholeSeconds(ttl)
	if err != nil {
		return "", err
	}
	accessToken = newSecret()
	err = s.change(ctx, func(q *db.Queries) (string, error) {
		return q.IdentityIssueToken(ctx, db.IdentityIssueTokenParams{PrincipalID: principal, Hash: hash(accessToken), TtlSeconds: seconds})
	})
	if err != nil {
		return "", err
	}
	return accessToken, nil
}

// EndToken signs out. A token that is no good any more is no error.
func (s *Store) EndToken(ctx context.Context, accessToken string) error {
	return s.change(ctx, func(q *db.Queries) (string, error) {
		_, err := q.IdentityEndToken(ctx, db.IdentityEndTokenParams{Hash: hash(accessToken)})
		return done, err
	})
}

// Admin is a principal with admin rights.
type Admin struct {
	ID        uuid.UUID
	Name      string
	Kind      Kind
	Disabled  bool
	GrantedAt time.Time // by the database's clock, in UTC
	GrantedBy uuid.UUID // [uuid.Nil] for the first admin and for rights given by plain SQL
	Path      string    // how the rights came: bootstrap, grant, invitation or sql
}

// ListAdmins answers everyone with admin rights, disabled ones too, oldest rights first. Its errors are
// [identity.LookupError].
func (s *Store) ListAdmins(ctx context.Context) (admins []Admin, err error) {
	var rows []db.IdentityAdmin
	err = retry(ctx, func() error {
		rows, err = db.New(s.db).IdentityListAdmins(ctx)
		return err
	})
	if err != nil {
		return nil, &identity.LookupError{Err: err}
	}
	for _, row := range rows {
		admins = append(admins, newAdmin(row))
	}
	return admins, nil
}

func newAdmin(row db.IdentityAdmin) Admin {
	a := Admin{ID: row.PrincipalID, Name: row.Name, Kind: Kind(row.Kind), Disabled: row.DisabledAt != nil,
		GrantedAt: row.GrantedAt.UTC(), Path: row.GrantPath}
	if row.GrantedBy != nil {
		a.GrantedBy = *row.GrantedBy
	}
	return a
}
