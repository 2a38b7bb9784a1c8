package migrate

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/amacneil/dbmate/v2/pkg/dbmate"
	"github.com/amacneil/dbmate/v2/pkg/driver/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// scheme selects driver below. dbmate's own driver connects through lib/pq,
// which reads connection strings differently (TLS is required by default, no
// service or password files), so that a URL good for pgx could fail here.
const scheme = "pgrail"

func init() { dbmate.RegisterDriver(newDriver, scheme) }

// driver is dbmate's Postgres driver with its connections made by pgx.
type driver struct {
	dbmate.Driver
	config string // name under which stdlib knows the connection's configuration
	table  string // of the versions
}

func newDriver(c dbmate.DriverConfig) dbmate.Driver {
	return driver{Driver: postgres.NewDriver(c), config: c.DatabaseURL.Host, table: c.MigrationsTableName}
}

func (d driver) Open() (*sql.DB, error) { return sql.Open("pgx", d.config) }

// QueryError adds the place in the file, as dbmate's does for lib/pq's errors.
func (d driver) QueryError(query string, err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	return queryError{dbmate.QueryError{Err: err, Query: query, Position: int(pgErr.Position)}}
}

// queryError makes dbmate's error transparent for errors.As.
type queryError struct{ dbmate.QueryError }

func (e queryError) Error() string { return e.QueryError.Error() }
func (e queryError) Unwrap() error { return e.Err }

// bindToContext registers conn for driver and returns the URL that names it.
// dbmate knows no contexts: when ctx ends, its connections run into a deadline,
// upon which pgconn cancels the statement on the server and closes them.
func bindToContext(ctx context.Context, conn *pgx.ConnConfig) (*url.URL, func()) {
	var mu sync.Mutex
	var stops []func() bool
	bound := conn.Copy()
	bound.AfterConnect = func(_ context.Context, c *pgconn.PgConn) error {
		stop := context.AfterFunc(ctx, func() { _ = c.Conn().SetDeadline(time.Unix(1, 0)) })
		mu.Lock()
		defer mu.Unlock()
		stops = append(stops, stop)
		return nil
	}
	name := stdlib.RegisterConnConfig(bound)
	release := func() {
		stdlib.UnregisterConnConfig(name)
		mu.Lock()
		defer mu.Unlock()
		for _, stop := range stops {
			stop()
		}
	}
	return &url.URL{Scheme: scheme, Host: name}, release
}
