package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

// envKeep is how long a failed test's database outlives its test binary.
const envKeep = "PGRAIL_TEST_KEEP"

// Main runs the tests, stops the server, and fails when goroutines are left. A
// package without it has its server stopped as well, at the end of the process.
func Main(m *testing.M) {
	code := m.Run()
	err := current.close()
	if err == nil && code == 0 && current.kind() != server.KindDocker { // testcontainers leaves some
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// keepFor reads the variable late, so that a test can set it.
func keepFor(t testing.TB) time.Duration {
	t.Helper()
	text, ok := os.LookupEnv(envKeep)
	if !ok {
		return 10 * time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		t.Errorf("pgtest: %s=%q must be a duration of 0 or more, such as 10m", envKeep, text)
	}
	return d
}

// lazy starts this test binary's server when the first test needs it. A failure
// is final: each further test would only take as long to fail.
type lazy struct {
	mu  sync.Mutex
	srv *shared
	err error
}

var current lazy

func (l *lazy) get(ctx context.Context) (*shared, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.srv == nil && l.err == nil {
		var s server.Server
		if s, l.err = server.Choose(ctx, server.Options{TempDir: server.MemoryDir()}); l.err == nil {
			l.srv = &shared{Server: s}
		}
	}
	return l.srv, l.err
}

// kind is empty while no test has asked for a server.
func (l *lazy) kind() server.Kind {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.srv == nil {
		return ""
	}
	return l.srv.Kind()
}

func (l *lazy) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.srv == nil {
		return nil
	}
	return l.srv.Close()
}

// shared is a server with its template. It holds no connection between calls,
// so that tests can count sessions and look for leaks.
type shared struct {
	server.Server
	mu       sync.Mutex
	template string // the name, once it is known to be there
}

// admin runs f on a connection to the server's own database.
func (s *shared) admin(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return f(conn)
}

// exec runs each statement for itself: databases are made outside transactions.
func exec(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func (s *shared) drop(ctx context.Context, name string) error {
	return s.admin(ctx, func(conn *pgx.Conn) error {
		return exec(ctx, conn, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)")
	})
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
