// Package pgtest gives each test a PostgreSQL database of its own, with pgrail's
// schema in it.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestClaim(t *testing.T) {
//		t.Parallel()
//		db := pgtest.New(t)
//		db.Pool.Exec(t.Context(), ...)
//	}
//
// A test binary uses one server, started at the first New; package server tells
// how it is chosen. The schema is applied to a template database once, and each
// test's database is a copy of it, made in some 50 ms. Any number of test
// binaries may use one server at the same time.
//
// A passed test's database is dropped. A failed one stays, and the test logs its
// URL: for PGRAIL_TEST_KEEP (default 10m) on a local server, for good on a
// named one. With PGRAIL_TEST_KEEP=0 it is dropped too. What a killed test
// binary leaves on a named server has a name that begins with "pgrail_".
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A DB is a test's database.
type DB struct {
	URL  string
	Name string
	// Pool is closed at the end of the test, which fails if connections are
	// still in use then.
	Pool *pgxpool.Pool
}

// New makes a database. Where there is no server at all, the test fails with an
// error that tells the ways to get one.
func New(t testing.TB, opts ...Option) *DB {
	t.Helper()
	c := config{settings: map[string]string{}, pool: func(*pgxpool.Config) {}}
	for _, opt := range opts {
		opt(&c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	made, err := create(ctx, t.Name(), c)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { made.finish(t) })
	return made
}

func create(ctx context.Context, testName string, c config) (*DB, error) {
	srv, err := current.get(ctx)
	if err != nil {
		return nil, err
	}
	template := pristine
	if !c.empty {
		if template, err = srv.migratedTemplate(ctx); err != nil {
			return nil, err
		}
	}
	name := databaseName(testName)
	if err := srv.copyDatabase(ctx, template, name, c.settings); err != nil {
		return nil, err
	}
	made := &DB{URL: srv.URL(name), Name: name}
	made.Pool, err = open(ctx, made.URL, c.pool)
	return made, err
}

func open(ctx context.Context, url string, change func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	change(config)
	return pgxpool.NewWithConfig(ctx, config)
}

// databaseName tells which test it belongs to, within the 63 bytes of a name.
func databaseName(testName string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(testName))
	return "pgrail_" + clean[:min(len(clean), 40)] + "_" + strings.ToLower(rand.Text()[:12])
}

// Connect opens a connection that is closed at the end of the test.
func (d *DB) Connect(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), d.URL)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// finish drops the database unless the test has failed.
func (d *DB) finish(t testing.TB) {
	t.Helper()
	if err := closePool(d.Pool); err != nil {
		t.Errorf("pgtest: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv, err := current.get(ctx)
	if err != nil {
		t.Errorf("pgtest: %v", err)
		return
	}
	if keep := keepFor(t); t.Failed() && keep > 0 {
		t.Logf("pgtest: the database of this failed test is kept: %s\n(%s)", d.URL, srv.Keep(keep))
		return
	}
	if err := srv.drop(ctx, d.Name); err != nil {
		t.Errorf("pgtest: %v", err)
	}
}

// closePool reports connections in use, for which Close alone would wait for
// ever.
func closePool(pool *pgxpool.Pool) error {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(5 * time.Second):
		return errors.New("the pool still has connections in use 5s after the test")
	}
}
