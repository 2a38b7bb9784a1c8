package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/amacneil/dbmate/v2/pkg/dbmate"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// names lists the shipped files in their order.
func names(t *testing.T) []string {
	t.Helper()
	all, err := fs.Glob(db.Migrations, "*")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("there are no files")
	}
	return all
}

// shipped holds the first n files.
func shipped(t *testing.T, n int) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range names(t)[:n] {
		text, err := fs.ReadFile(db.Migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	return files
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func mustUp(t *testing.T, db *pgtest.DB, opts ...migrate.Option) {
	t.Helper()
	if err := migrate.Up(t.Context(), db.URL, opts...); err != nil {
		t.Fatal(err)
	}
}

// versions lists what table records.
func versions(t *testing.T, db *pgtest.DB, table string) []string {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), "SELECT version FROM "+table+" ORDER BY version")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// recorder collects which files a call reports to have worked on.
func recorder() (*bytes.Buffer, migrate.Option) {
	var out bytes.Buffer
	strip := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}
	return &out, migrate.WithLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: strip})))
}

func TestUpAppliesEachFileOnce(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	first, opt := recorder()
	mustUp(t, made, opt)
	var want strings.Builder
	for _, name := range names(t) {
		want.WriteString("msg=\"migrate: applying\" file=" + name + "\n")
	}
	if diff := cmp.Diff(want.String(), first.String()); diff != "" {
		t.Errorf("the first call's report (-want +got):\n%s", diff)
	}
	before := snapshot(t, made)
	second, opt := recorder()
	mustUp(t, made, opt)
	if second.Len() != 0 {
		t.Errorf("the second call reports %s", second)
	}
	if diff := cmp.Diff(before, snapshot(t, made)); diff != "" {
		t.Errorf("the second call changed the schema (-before +after):\n%s", diff)
	}
}

// An administrator's settings must not change what the files make.
func TestUpUnderHostileSettings(t *testing.T) {
	t.Parallel()
	plain := pgtest.New(t, pgtest.Empty())
	hostile := pgtest.New(t, pgtest.Empty(), pgtest.Hostile())
	mustUp(t, plain)
	mustUp(t, hostile)
	if diff := cmp.Diff(snapshot(t, plain), snapshot(t, hostile)); diff != "" {
		t.Errorf("the schemas differ (-plain +hostile):\n%s", diff)
	}
}

func TestDownUndoesEachFile(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	for i, name := range names(t) {
		before := snapshot(t, made)
		files := migrate.WithFiles(shipped(t, i+1))
		mustUp(t, made, files)
		if err := migrate.Down(t.Context(), made.URL, files); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, snapshot(t, made)); diff != "" {
			t.Errorf("the down part of %s leaves something (-before +after):\n%s", name, diff)
		}
		mustUp(t, made, files)
	}
	for range names(t) {
		if err := migrate.Down(t.Context(), made.URL); err != nil {
			t.Fatal(err)
		}
	}
	if err := migrate.Down(t.Context(), made.URL); !errors.Is(err, migrate.ErrNothingApplied) {
		t.Errorf("Down on an empty database: %v", err)
	}
}

var fileName = regexp.MustCompile(`^\d{4}_[a-z0-9]+(_[a-z0-9]+)*\.sql$`)

// sqlc takes a down part for schema unless its marker stands alone in column 0.
func TestFilesHaveDBMateForm(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		if !fileName.MatchString(name) {
			t.Errorf("%s: the name must have the form NNNN_words.sql", name)
		}
		text, err := fs.ReadFile(db.Migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, []byte("-- migrate:up\n")) || bytes.Count(text, []byte("\n-- migrate:down\n")) != 1 {
			t.Errorf("%s: it must begin with a line '-- migrate:up' and have one line '-- migrate:down'", name)
		}
	}
}

// An application may use dbmate for its own files, which are numbered alike.
func TestUpBesideTheApplicationsOwnMigrations(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	own := newDBMate(t, made, fstest.MapFS{"0001_own.sql": file("-- migrate:up\nCREATE TABLE public.own ();\n-- migrate:down\n")})
	if err := own.Migrate(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, made)
	if got, want := versions(t, made, migrate.DefaultTable), len(names(t)); len(got) != want {
		t.Errorf("%d of %d files are recorded: %v", len(got), want, got)
	}
	if diff := cmp.Diff([]string{"0001"}, versions(t, made, "public.schema_migrations")); diff != "" {
		t.Errorf("the application's own record (-want +got):\n%s", diff)
	}
}

// The other way to apply the files, as package db documents it.
func TestDBMateAppliesTheFiles(t *testing.T) {
	t.Parallel()
	viaDBMate, viaUp := pgtest.New(t, pgtest.Empty()), pgtest.New(t, pgtest.Empty())
	m := newDBMate(t, viaDBMate, db.Migrations)
	if err := m.Migrate(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, viaUp)
	if diff := cmp.Diff(snapshot(t, viaUp), without(snapshot(t, viaDBMate), "public.schema_migrations")); diff != "" {
		t.Errorf("the schemas differ (-Up +dbmate):\n%s", diff)
	}
	out, log := recorder()
	mustUp(t, viaDBMate, log, migrate.WithTable("public.schema_migrations"))
	if out.Len() != 0 {
		t.Errorf("with dbmate's table, Up still finds work: %s", out)
	}
}

func without(lines []string, part string) []string {
	var kept []string
	for _, line := range lines {
		if !strings.Contains(line, part) {
			kept = append(kept, line)
		}
	}
	return kept
}

func newDBMate(t *testing.T, made *pgtest.DB, files fs.FS) *dbmate.DB {
	t.Helper()
	u, err := url.Parse(made.URL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("sslmode", "disable") // dbmate connects through lib/pq, which would insist on TLS
	u.RawQuery = query.Encode()
	m := dbmate.New(u)
	m.FS, m.MigrationsDir, m.AutoDumpSchema, m.Log = files, []string{"."}, false, &bytes.Buffer{}
	return m
}

func TestConnectionStringForms(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	c := made.Pool.Config().ConnConfig
	pairs := "host=" + c.Host + " user=" + c.User + " password='" + c.Password + "' dbname=" + c.Database + " sslmode=disable port=" + itoa(c.Port)
	if err := migrate.Up(t.Context(), pairs); err != nil {
		t.Errorf("key=value pairs: %v", err)
	}
	if err := migrate.Up(t.Context(), made.URL+"&default_query_exec_mode=simple_protocol"); err != nil {
		t.Errorf("a URL with a query mode: %v", err)
	}
}

// A library must not write to its application's output, nor run programs.
func TestUpIsSilentAndRunsNothing(t *testing.T) {
	made := pgtest.New(t, pgtest.Empty())
	dir := t.TempDir()
	trap := filepath.Join(dir, "pg_dump")
	if err := os.WriteFile(trap, []byte("#!/bin/sh\ntouch "+dir+"/ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Chdir(dir)
	stdout, err := os.Create(filepath.Join(dir, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer func(old *os.File) { os.Stdout = old }(os.Stdout)
	os.Stdout = stdout
	mustUp(t, made)
	if err := migrate.Down(context.Background(), made.URL); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob("*")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pg_dump", "stdout"}, left); diff != "" {
		t.Errorf("files in the working directory (-want +got):\n%s", diff)
	}
	if text, _ := os.ReadFile(stdout.Name()); len(text) != 0 {
		t.Errorf("written to standard output: %s", text)
	}
}
