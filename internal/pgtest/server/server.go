// Package server finds or starts a PostgreSQL server to work against: for tests
// through package pgtest, and for the demo and the benchmarks directly.
//
// [Choose] takes the first that there is of
//
//  1. the server that PGRAIL_TEST_DATABASE_URL names, as a superuser;
//  2. a throw-away server from the machine's own binaries, version 14 or newer;
//  3. a container, through Docker.
//
// PGRAIL_TEST_SERVER=url, local or docker forces one. PGRAIL_TEST_PGBIN names the
// directory of the binaries, PGRAIL_TEST_IMAGE the image. [StartLocal] gives the
// second kind with more control: stop it in each mode, start it again.
//
// A local server ends with its owner: [Local.Close] removes it, and so does the
// end of the process, by whatever cause. Nothing else needs to clean up.
package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The environment variables that Choose reads.
const (
	EnvServer = "PGRAIL_TEST_SERVER"
	EnvURL    = "PGRAIL_TEST_DATABASE_URL"
	EnvBin    = "PGRAIL_TEST_PGBIN"
	EnvImage  = "PGRAIL_TEST_IMAGE"
)

// MinVersion is the oldest major version that pgrail supports.
const MinVersion = 14

// A Kind is one of the three ways to a server.
type Kind string

// The kinds, in the order in which Choose tries them.
const (
	URL    Kind = "url"
	Docker Kind = "docker"
	OwnBin Kind = "local"
)

// A Server is one on which the caller is superuser and may make databases.
type Server interface {
	Kind() Kind
	// URL is the connection string for the named database, which need not exist.
	URL(database string) string
	// Keep lets what Close or the end of the process would remove live on for d,
	// and tells how it ends.
	Keep(d time.Duration) string
	// Close stops and removes what Choose has started.
	Close() error
}

// Options describe the server to start. A server named by URL is taken as it is.
type Options struct {
	// Settings are of postgresql.conf, without quotes: {"timezone": "UTC"}.
	Settings map[string]string
	// Loopback makes a local server listen on a free port of 127.0.0.1 too, and
	// URL use that. The socket alone is faster and private.
	Loopback bool
	// BinDir holds initdb, pg_ctl and postgres; empty means the newest found.
	BinDir string
	// Locale is initdb's --locale; empty means C.
	Locale string
}

// Choose returns a server of the forced kind or of the first kind available. A
// named server that does not answer is an error and not a reason to go on.
func Choose(ctx context.Context, o Options) (Server, error) {
	ways := []struct {
		kind  Kind
		start func(context.Context, Options) (Server, error)
	}{{URL, fromURL}, {OwnBin, startLocal}, {Docker, startContainer}}
	forced := Kind(os.Getenv(EnvServer))
	if forced == "" && os.Getenv(EnvURL) != "" {
		forced = URL
	}
	tried := &UnavailableError{Forced: forced, Reasons: map[Kind]error{}}
	for _, way := range ways {
		if forced != "" && forced != way.kind {
			continue
		}
		s, err := way.start(ctx, o)
		if err == nil {
			return s, nil
		}
		tried.Reasons[way.kind] = err
	}
	return nil, tried
}

// An UnavailableError tells why each kind that was tried gave no server.
type UnavailableError struct {
	Forced  Kind
	Reasons map[Kind]error
}

func (e *UnavailableError) Error() string {
	var b strings.Builder
	b.WriteString("no PostgreSQL server to work with")
	if e.Forced != "" {
		fmt.Fprintf(&b, " (only %s=%q was tried)", EnvServer, e.Forced)
	}
	fmt.Fprintf(&b, "; any one of these is enough:\n"+
		"  url:    set %s to a server on which you are superuser%s\n"+
		"  local:  install server binaries, version %d or newer (Debian: apt-get install postgresql), or set %s to their directory%s\n"+
		"  docker: start Docker; %s names the image%s",
		EnvURL, e.why(URL), MinVersion, EnvBin, e.why(OwnBin), EnvImage, e.why(Docker))
	return b.String()
}

func (e *UnavailableError) why(k Kind) string {
	if err := e.Reasons[k]; err != nil {
		return "\n          (tried: " + err.Error() + ")"
	}
	return ""
}

// Unwrap gives the reasons to errors.Is and errors.As.
func (e *UnavailableError) Unwrap() []error {
	var all []error
	for _, err := range e.Reasons {
		all = append(all, err)
	}
	return all
}

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

func (*named) Kind() Kind { return URL }

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
