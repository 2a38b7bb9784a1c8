package migrate_test

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/migrate"
)

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	const good = "postgres://user@127.0.0.1:1/none"
	for name, c := range map[string]struct {
		url   string
		opt   migrate.Option
		field string
	}{
		"no URL":               {"", nil, "database URL"},
		"URL of another kind":  {"mysql://user:hunter2@host/db", nil, "database URL"},
		"bad port":             {"postgres://user:hunter2@host:port/db", nil, "database URL"},
		"bad escape":           {"postgres://user:hunter2%@host/db", nil, "database URL"},
		"unquoted value":       {"password=hunter2 'x", nil, "database URL"},
		"no table":             {good, migrate.WithTable(""), "table"},
		"table without schema": {good, migrate.WithTable("versions"), "table"},
		"table with quotes":    {good, migrate.WithTable(`public."versions"`), "table"},
		"table with statement": {good, migrate.WithTable("public.v; drop table x"), "table"},
		"table of three parts": {good, migrate.WithTable("a.public.versions"), "table"},
		"table in capitals":    {good, migrate.WithTable("public.Versions"), "table"},
		"table name of 64":     {good, migrate.WithTable("public." + strings.Repeat("v", 64)), "table"},
		"no logger":            {good, migrate.WithLogger((*slog.Logger)(nil)), "logger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := []migrate.Option{}
			if c.opt != nil {
				opts = append(opts, c.opt)
			}
			err := migrate.Up(t.Context(), c.url, opts...)
			var e *migrate.ConfigError
			if !errors.As(err, &e) || e.Field != c.field {
				t.Errorf("error %v; want a ConfigError for %s", err, c.field)
			}
			// %+v and Unwrap would show what Error hides.
			if strings.Contains(err.Error(), "hunter2") || errors.Unwrap(err) != nil {
				t.Errorf("the error may carry the password: %#v", err)
			}
		})
	}
}

func TestConnectErrorsAreDiscreet(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	absent, err := url.Parse(made.URL)
	if err != nil {
		t.Fatal(err)
	}
	absent.Path = "/secretdb"
	absent.User = url.UserPassword(absent.User.Username(), "hunter2")
	for name, c := range map[string]struct{ url, sqlState string }{
		"nobody listens": {"postgres://secretuser:hunter2@127.0.0.1:1/secretdb", ""},
		"no such host":   {"postgres://secretuser:hunter2@/secretdb?host=/secretdir", ""},
		"refused":        {absent.String(), "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := migrate.Up(t.Context(), c.url)
			var e *migrate.Error
			var cause *pgconn.ConnectError
			if !errors.As(err, &e) || e.Op != "connect" || !errors.As(err, &cause) {
				t.Fatalf("error %v; want an Error of Op connect around the ConnectError", err)
			}
			if (e.SQLState != "") != (c.sqlState != "") {
				t.Errorf("SQLState %q", e.SQLState)
			}
			for _, secret := range []string{"hunter2", "secretuser", "secretdb", "secretdir", "127.0.0.1"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q shows %q", err, secret)
				}
			}
		})
	}
}

func TestFailingFile(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	files := fstest.MapFS{
		"0001_good.sql": file("-- migrate:up\nCREATE TABLE public.t ();\n-- migrate:down\nDROP TABLE public.nothing;\n"),
		"0002_bad.sql":  file("-- migrate:up\nCREATE TABLE public.u ();\n\n  DROP TABLE public.nothing;\n-- migrate:down\n"),
	}
	err := migrate.Up(t.Context(), made.URL, migrate.WithFiles(files))
	want := migrate.Error{Op: "apply", File: "0002_bad.sql", SQLState: "42P01"}
	checkError(t, err, want)
	left := strings.Join(snapshot(t, made), "\n")
	if !strings.Contains(left, "relation public.t ") || strings.Contains(left, "relation public.u ") {
		t.Errorf("the good file must stay and the bad one leave nothing; there is\n%s", left)
	}
	delete(files, "0002_bad.sql")
	err = migrate.Down(t.Context(), made.URL, migrate.WithFiles(files))
	checkError(t, err, migrate.Error{Op: "roll back", File: "0001_good.sql", SQLState: "42P01"})
	if diff := cmp.Diff([]string{"0001"}, versions(t, made, migrate.DefaultTable)); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

func checkError(t *testing.T, err error, want migrate.Error) {
	t.Helper()
	var e *migrate.Error
	var cause *pgconn.PgError
	if !errors.As(err, &e) || !errors.As(err, &cause) {
		t.Fatalf("error %v; want an Error around the server's", err)
	}
	if e.Op != want.Op || e.File != want.File || e.SQLState != want.SQLState {
		t.Errorf("error %+v; want %+v", e, want)
	}
}

// The place in the file saves a search.
func TestErrorTellsThePlace(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	err := migrate.Up(t.Context(), made.URL, migrate.WithFiles(fstest.MapFS{
		"0001_bad.sql": file("-- migrate:up\nCREATE TABLE public.t ();\n\n  CREATE NONSENSE;\n-- migrate:down\n"),
	}))
	const want = "migrate: apply 0001_bad.sql: line: 4, column: 10, position: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %q; want it to begin with %q", err, want)
	}
}

// Files are released in the order of their numbers; one that comes late was
// numbered wrongly.
func TestUpRefusesAFileOutOfOrder(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	empty := file("-- migrate:up\n-- migrate:down\n")
	mustUp(t, made, migrate.WithFiles(fstest.MapFS{"0002_b.sql": empty}))
	err := migrate.Up(t.Context(), made.URL, migrate.WithFiles(fstest.MapFS{"0001_a.sql": empty, "0002_b.sql": empty}))
	var e *migrate.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("error %v; want an Error about the order", err)
	}
}
