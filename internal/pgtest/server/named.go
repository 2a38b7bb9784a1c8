package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// named is a server that somebody else runs.
type named struct{ url *url.URL }

func fromURL(ctx context.Context, _ Options) (Server, error) {
	value := os.Getenv(EnvURL)
	if value == "" {
		return nil, errors.New(EnvURL + " is not set")
	}
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, errors.New(EnvURL + " must have the form postgres://user:password@host:port/database")
	}
	if err := check(ctx, u.String()); err != nil {
		return nil, err
	}
	return &named{url: u}, nil
}

func (*named) Kind() Kind { return KindURL }

func (n *named) URL(database string) string {
	u := *n.url
	u.Path = "/" + database
	return u.String()
}

func (*named) Keep(time.Duration) string { return "it stays until you drop it" }

func (*named) Close() error { return nil }

// check connects once and refuses a server that is too old.
func check(ctx context.Context, connString string) error {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var version int
	const ask = `SELECT pg_catalog.current_setting('server_version_num')::integer`
	if err := conn.QueryRow(ctx, ask).Scan(&version); err != nil {
		return err
	}
	if version/10000 < MinVersion {
		return fmt.Errorf("server version %d is older than %d", version/10000, MinVersion)
	}
	return nil
}
