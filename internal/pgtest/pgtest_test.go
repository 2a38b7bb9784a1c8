package pgtest_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func ask(t *testing.T, db *pgtest.DB, sql string) (answer string) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	const events = `SELECT count(*)::text FROM public.pgrail_schema_migrations WHERE version = 'mine'`
	a, b := pgtest.New(t), pgtest.New(t)
	if _, err := a.Pool.Exec(t.Context(), `INSERT INTO public.pgrail_schema_migrations VALUES ('mine')`); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, a, events) + ask(t, b, events); got != "10" {
		t.Errorf("one row in the first and none in the second, not %s", got)
	}
	if name := ask(t, a, `SELECT current_database()::text`); name != a.Name {
		t.Errorf("the database is %s, and Name says %s", name, a.Name)
	}
}

func TestPassedTestDropsItsDatabase(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("passes", func(t *testing.T) { name = pgtest.New(t).Name })
	other := pgtest.New(t)
	if got := ask(t, other, `SELECT count(*)::text FROM pg_catalog.pg_database WHERE datname = '`+name+`'`); name == "" || got != "0" {
		t.Errorf("database %q is still there", name)
	}
}

func TestSettingsHoldInEverySession(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Hostile(), pgtest.Setting("timezone", "Asia/Kathmandu"), pgtest.Setting("my.quote", "it's"))
	want := map[string]string{
		"timezone": "Asia/Kathmandu", "datestyle": "SQL, DMY", "search_path": "pg_temp", "array_nulls": "off",
		"plpgsql.variable_conflict": "use_variable", "my.quote": "it's",
	}
	got := map[string]string{}
	conn := db.Connect(t)
	for name := range want {
		var value string
		if err := conn.QueryRow(t.Context(), "SHOW "+name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		got[name] = value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestEmptyLeavesTheSchemaOut(t *testing.T) {
	t.Parallel()
	const tables = `SELECT count(*)::text FROM pg_catalog.pg_class WHERE relnamespace = 'public'::regnamespace`
	if got := ask(t, pgtest.New(t, pgtest.Empty()), tables); got != "0" {
		t.Errorf("%s relations in an empty database", got)
	}
	if got := ask(t, pgtest.New(t), tables); got == "0" {
		t.Error("no relations in a migrated database")
	}
}

func TestPoolConfig(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.PoolConfig(func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		c.ConnConfig.RuntimeParams["application_name"] = "configured"
	}))
	if got := ask(t, db, `SHOW application_name`); got != "configured" {
		t.Errorf("application_name %s", got)
	}
	if got := db.Pool.Config().ConnConfig.DefaultQueryExecMode; got != pgx.QueryExecModeSimpleProtocol {
		t.Errorf("mode %s", got)
	}
}

func TestDatabaseNames(t *testing.T) {
	t.Parallel()
	for test, want := range map[string]string{
		"TestX":                       `^pgrail_testx_[a-z0-9]{12}$`,
		"TestX/a_case,_with 'quotes'": `^pgrail_testx_a_case__with__quotes__[a-z0-9]{12}$`,
		"TestÄ/日本":                    `^pgrail_test_____[a-z0-9]{12}$`,
		strings.Repeat("x", 100):      `^pgrail_x{40}_[a-z0-9]{12}$`,
	} {
		got := pgtest.NameFor(test)
		if !regexp.MustCompile(want).MatchString(got) || len(got) > 63 {
			t.Errorf("%s: %s; want %s in 63 bytes", test, got, want)
		}
		if again := pgtest.NameFor(test); again == got {
			t.Errorf("%s: the same name twice, %s", test, got)
		}
	}
}

// Any change to the files must give another template.
func TestTemplateNameFollowsTheFiles(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, files := range map[string]fstest.MapFS{
		"a file":       {"1.sql": {Data: []byte("ab")}},
		"other text":   {"1.sql": {Data: []byte("ac")}},
		"other name":   {"2.sql": {Data: []byte("ab")}},
		"another file": {"1.sql": {Data: []byte("ab")}, "2.sql": {Data: []byte("")}},
		"moved text":   {"1.sql": {Data: []byte("a")}, "2.sql": {Data: []byte("b")}},
	} {
		got, err := pgtest.TemplateNameFrom(files)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s share %s", name, other, got)
		}
		seen[got] = name
	}
}
