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
	"os"
	"time"
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

// A Kind is one of the three ways to a server, as PGRAIL_TEST_SERVER names it.
type Kind string

// The kinds, in the order in which Choose tries them.
const (
	KindURL    Kind = "url"
	KindLocal  Kind = "local"
	KindDocker Kind = "docker"
)

// A Server is one on which the caller is superuser and may make databases.
type Server interface {
	Kind() Kind
	// URL is the connection string for the named database, which need not exist.
	URL(database string) string
	// Keep may be called at any time, and by several goroutines. It lets what Close or the end of the process would remove live on for d,
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
	// TempDir is where a local server's directory is made; empty means the
	// system's.
	TempDir string
	// Locale is initdb's --locale; empty means C.
	Locale string
}

// ways lists the kinds in their order.
var ways = []struct {
	kind  Kind
	start func(context.Context, Options) (Server, error)
}{{KindURL, fromURL}, {KindLocal, startLocal}, {KindDocker, startContainer}}

// Choose returns a server of the forced kind, or of the first kind available. A
// server named by URL that does not answer is an error, not a reason to go on.
// The error is an [*UnavailableError].
func Choose(ctx context.Context, o Options) (Server, error) {
	only := Kind(os.Getenv(EnvServer))
	if only == "" && os.Getenv(EnvURL) != "" {
		only = KindURL
	}
	tried := &UnavailableError{Only: only}
	for _, way := range ways {
		if only != "" && only != way.kind {
			continue
		}
		s, err := way.start(ctx, o)
		if err == nil {
			return s, nil
		}
		tried.Reasons = append(tried.Reasons, Reason{way.kind, err})
	}
	return nil, tried
}
