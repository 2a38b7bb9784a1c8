package migrate_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/catalogue"
	"github.com/openlup/pgrail/db"
	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/migrate"
)

const hashTable = "public.pgrail_schema_migrations_hashes"

// hashed is what the database has recorded of each file.
func hashed(t *testing.T, made *pgtest.DB) map[string]string {
	t.Helper()
	rows, err := made.Pool.Query(t.Context(), "SELECT file, sha256 FROM "+hashTable)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	var file, hash string
	if _, err := pgx.ForEachRow(rows, []any{&file, &hash}, func() error { recorded[file] = hash; return nil }); err != nil {
		t.Fatal(err)
	}
	return recorded
}

// computed is the hash of each of the first n files as they are.
func computed(t *testing.T, n int) map[string]string {
	t.Helper()
	hashes := map[string]string{}
	for _, name := range names(t)[:n] {
		text, err := fs.ReadFile(db.Migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		hashes[name] = hex.EncodeToString(sum[:])
	}
	return hashes
}

func tamper(t *testing.T, made *pgtest.DB, file string) {
	t.Helper()
	tag, err := made.Pool.Exec(t.Context(), "UPDATE "+hashTable+" SET sha256 = 'of another text' WHERE file = $1::text", file)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%s: %v, %v", file, tag, err)
	}
}

// checkDrift expects a refusal that names the file, in the error and its text.
func checkDrift(t *testing.T, err error, file string) {
	t.Helper()
	var e *migrate.Error
	var drift *catalogue.DriftError
	if !errors.As(err, &e) || !errors.As(err, &drift) {
		t.Fatalf("error %v; want an Error around a DriftError", err)
	}
	if e.Op != "check" || e.File != file || drift.File != file || !strings.Contains(err.Error(), file) {
		t.Errorf("error %+v, around %+v; want Op check and file %s", e, drift, file)
	}
}

func TestHashesComeAndGoWithTheirFiles(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	all := len(names(t))
	mustUp(t, made, migrate.WithFiles(shipped(t, all-1)))
	if diff := cmp.Diff(computed(t, all-1), hashed(t, made)); diff != "" {
		t.Errorf("all but the last (-computed +recorded):\n%s", diff)
	}
	mustUp(t, made)
	if diff := cmp.Diff(computed(t, all), hashed(t, made)); diff != "" {
		t.Errorf("all (-computed +recorded):\n%s", diff)
	}
	if err := migrate.Down(t.Context(), made.URL); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(computed(t, all-1), hashed(t, made)); diff != "" {
		t.Errorf("after rolling back the last (-computed +recorded):\n%s", diff)
	}
}

func TestSecondStartWritesNoHashes(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	written := func() (marks string) {
		const read = "SELECT coalesce(string_agg(xmin || ' ' || file, ',' ORDER BY file), '') FROM " + hashTable
		if err := made.Pool.QueryRow(t.Context(), read).Scan(&marks); err != nil {
			t.Fatal(err)
		}
		return marks
	}
	mustUp(t, made)
	before := written()
	mustUp(t, made)
	if after := written(); after != before || before == "" {
		t.Errorf("rows were written again:\n%s\n%s", before, after)
	}
}

// Nothing is applied to, nor rolled back in, a database that is not what it seems.
func TestATamperedAppliedFileIsRefused(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{names(t)[0], names(t)[len(names(t))-2]} {
		made := pgtest.New(t, pgtest.Empty())
		mustUp(t, made, migrate.WithFiles(shipped(t, len(names(t))-1)))
		tamper(t, made, victim)
		before, applied := snapshot(t, made), versions(t, made, migrate.DefaultTable)
		checkDrift(t, migrate.Up(t.Context(), made.URL), victim)
		checkDrift(t, migrate.Down(t.Context(), made.URL), victim)
		if diff := cmp.Diff(before, snapshot(t, made)); diff != "" {
			t.Errorf("the schema changed (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(applied, versions(t, made, migrate.DefaultTable)); diff != "" {
			t.Errorf("the versions changed (-before +after):\n%s", diff)
		}
	}
}

// A binary whose own files are not those of its catalogue does not even connect.
// Not parallel, as it swaps the files for all.
func TestATamperedBinaryIsRefused(t *testing.T) {
	victim := names(t)[1]
	tampered := shipped(t, len(names(t))).(fstest.MapFS)
	tampered[victim] = file("-- migrate:up\n-- migrate:down\n")
	defer func(files fs.FS) { db.Migrations = files }(db.Migrations)
	db.Migrations = tampered
	const nowhere = "postgres://127.0.0.1:1/none"
	checkDrift(t, migrate.Up(t.Context(), nowhere), victim)
	checkDrift(t, migrate.Down(t.Context(), nowhere), victim)
}

// What was applied without a record counts as what it is now, and is held to it.
func TestFilesWithoutARecordAreAdopted(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	table := migrate.WithTable("public.schema_migrations")
	if err := newDBMate(t, made, db.Migrations).Migrate(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, made, table)
	if diff := cmp.Diff(computed(t, len(names(t))), hashed(t, made)); diff != "" {
		t.Errorf("(-computed +recorded):\n%s", diff)
	}
	tamper(t, made, names(t)[2])
	checkDrift(t, migrate.Up(t.Context(), made.URL, table), names(t)[2])
}

// Records of files that are not applied say nothing: a newer pgrail's files, and
// what dbmate's program has rolled back.
func TestRecordsOfOtherFilesPass(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	all := len(names(t))
	last := names(t)[all-1]
	mustUp(t, made, migrate.WithFiles(shipped(t, all-1)))
	const stale = "INSERT INTO " + hashTable + " VALUES ('9999_newer.sql', 'newer'), ($1::text, 'stale')"
	if _, err := made.Pool.Exec(t.Context(), stale, last); err != nil {
		t.Fatal(err)
	}
	mustUp(t, made)
	want := computed(t, all)
	want["9999_newer.sql"] = "newer"
	if diff := cmp.Diff(want, hashed(t, made)); diff != "" {
		t.Errorf("(-want +recorded):\n%s", diff)
	}
}

// A file that fails in its last moment leaves neither a version nor a hash.
func TestAFileThatFailsAtItsCommitLeavesNoHash(t *testing.T) {
	t.Parallel()
	made := pgtest.New(t, pgtest.Empty())
	err := migrate.Up(context.Background(), made.URL, migrate.WithFiles(fstest.MapFS{
		"0001_late.sql": file("-- migrate:up\nCREATE TABLE public.t (n integer PRIMARY KEY, m integer REFERENCES public.t DEFERRABLE INITIALLY DEFERRED);\n" +
			"INSERT INTO public.t VALUES (1, 2);\n-- migrate:down\n"),
	}))
	checkError(t, err, migrate.Error{Op: "apply", File: "0001_late.sql", SQLState: "23503"})
	if got := versions(t, made, migrate.DefaultTable); len(got) > 0 || len(hashed(t, made)) > 0 {
		t.Errorf("recorded: versions %v, hashes %v", got, hashed(t, made))
	}
}
