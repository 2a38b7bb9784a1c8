package pgtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/internal/pgtest/server"
)

// cases is the path of testdata/cases, compiled.
type cases string

func TestCases(t *testing.T) {
	t.Parallel()
	c := cases(filepath.Join(t.TempDir(), "cases"))
	out, err := exec.Command("go", "test", "-c", "-o", string(c), "./testdata/cases").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("binaries share a server", c.share)
	t.Run("a failed test keeps its database on an own server", c.keepOnOwnServer)
	t.Run("a failed test keeps its database on a named server", c.keepOnNamedServer)
	t.Run("a failed test drops its database if told to", c.keepNot)
	t.Run("a bad time to keep is refused", c.keepUnknown)
	t.Run("no server at all", c.noServer)
	t.Run("a leaked goroutine", c.leakedGoroutine)
	t.Run("a leaked connection", c.leakedConnection)
}

// run runs one test of the binary and returns what it printed.
func (c cases) run(t *testing.T, name string, env ...string) (output string, passed bool) {
	t.Helper()
	cmd := exec.Command(string(c), "-test.v", "-test.run=^"+name+"$")
	cmd.Env = append(append(os.Environ(), server.EnvServer+"=", "PGRAIL_TEST_KEEP=10m"), env...)
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out), err == nil
}

// their starts the server that somebody has named.
func their(t *testing.T) (l *server.Local, env string) {
	t.Helper()
	l, err := server.StartLocal(t.Context(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, server.EnvURL + "=" + l.URL("postgres")
}

func databases(t *testing.T, url string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), `SELECT datname::text FROM pg_catalog.pg_database WHERE datname LIKE 'pgrail%' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Test binaries of several packages run at the same time.
func (c cases) share(t *testing.T) {
	t.Parallel()
	l, env := their(t)
	// What a binary killed at its work has left.
	abandoned := pgtest.TemplateName(t)
	conn, err := pgx.Connect(t.Context(), l.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+abandoned); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if out, passed := c.run(t, "TestPass", env); !passed {
				t.Errorf("failed:\n%s", out)
			}
		}()
	}
	wg.Wait()
	if diff := cmp.Diff([]string{abandoned}, databases(t, l.URL("postgres"))); diff != "" {
		t.Errorf("databases left (-want +got):\n%s", diff)
	}
}

var keptURL = regexp.MustCompile(`is kept: (postgres://\S+)`)

func evidence(t *testing.T, output string) string {
	t.Helper()
	match := keptURL.FindStringSubmatch(output)
	if match == nil {
		t.Fatalf("no URL is logged:\n%s", output)
	}
	conn, err := pgx.Connect(t.Context(), match[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var value string
	if err := conn.QueryRow(t.Context(), `SELECT value FROM public.evidence`).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func (c cases) keepOnOwnServer(t *testing.T) {
	t.Parallel()
	out, passed := c.run(t, "TestFail", server.EnvServer+"=local")
	if got := evidence(t, out); passed || got != "here" {
		t.Errorf("passed: %t, evidence: %s", passed, got)
	}
	rm := regexp.MustCompile(`at once with: rm (\S+/keep)`).FindStringSubmatch(out)
	if rm == nil {
		t.Fatalf("it is not told how to end it:\n%s", out)
	}
	if err := os.Remove(rm[1]); err != nil {
		t.Error(err)
	}
}

func (c cases) keepOnNamedServer(t *testing.T) {
	t.Parallel()
	l, env := their(t)
	out, passed := c.run(t, "TestFail", env)
	if got := evidence(t, out); passed || got != "here" {
		t.Errorf("passed: %t, evidence: %s", passed, got)
	}
	if got := databases(t, l.URL("postgres")); len(got) != 2 {
		t.Errorf("databases: %v; want the template and the test's", got)
	}
}

func (c cases) keepNot(t *testing.T) {
	t.Parallel()
	l, env := their(t)
	out, passed := c.run(t, "TestFail", env, "PGRAIL_TEST_KEEP=0s")
	if got := databases(t, l.URL("postgres")); passed || len(got) != 1 {
		t.Errorf("passed: %t, databases: %v; want the template alone\n%s", passed, got, out)
	}
}

func (c cases) keepUnknown(t *testing.T) {
	t.Parallel()
	_, env := their(t)
	out, passed := c.run(t, "TestPass", env, "PGRAIL_TEST_KEEP=soon")
	if passed || !strings.Contains(out, `PGRAIL_TEST_KEEP="soon" must be a duration`) {
		t.Errorf("passed: %t:\n%s", passed, out)
	}
}

// No server is a failure: a skipped test would look like a passed one.
func (c cases) noServer(t *testing.T) {
	t.Parallel()
	out, passed := c.run(t, "TestPass", server.EnvURL+"=", server.EnvBin+"="+t.TempDir(), server.EnvImage+"=not an image")
	for _, want := range []string{server.EnvURL, server.EnvBin, "start Docker", "--- FAIL"} {
		if passed || !strings.Contains(out, want) {
			t.Errorf("passed: %t, and %q is not in:\n%s", passed, want, out)
		}
	}
}

func (c cases) leakedGoroutine(t *testing.T) {
	t.Parallel()
	out, passed := c.run(t, "TestLeakGoroutine")
	if passed || !strings.Contains(out, "--- PASS") || !strings.Contains(out, "unexpected goroutines") {
		t.Errorf("passed: %t:\n%s", passed, out)
	}
}

func (c cases) leakedConnection(t *testing.T) {
	t.Parallel()
	l, env := their(t)
	out, passed := c.run(t, "TestLeakConnection", env, "PGRAIL_TEST_KEEP=0s")
	if passed || !strings.Contains(out, "connections in use") {
		t.Errorf("passed: %t:\n%s", passed, out)
	}
	if got := databases(t, l.URL("postgres")); len(got) != 1 {
		t.Errorf("databases: %v; want the template alone", got)
	}
}
