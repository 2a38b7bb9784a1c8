package main_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

// withdb is the command, built by TestMain.
var withdb string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "withdb-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		withdb = filepath.Join(dir, "withdb")
		if out, err := exec.Command("go", "build", "-o", withdb, ".").CombinedOutput(); err != nil {
			panic(string(out))
		}
		return m.Run()
	}())
}

// theirs is a named server, to look at what is left there.
func theirs(t *testing.T) *server.Local {
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
	return l
}

func command(l *server.Local, args ...string) *exec.Cmd {
	cmd := exec.Command(withdb, args...)
	cmd.Env = append(os.Environ(), server.EnvServer+"=url", server.EnvURL+"="+l.URL("postgres"))
	return cmd
}

func query(t *testing.T, url, sql string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	relations = `SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = 'public'::regnamespace`
	ours      = `SELECT count(*) FROM pg_catalog.pg_database WHERE datname LIKE 'pgrail%'`
)

// start runs a command that prints the database's URL and waits for a line.
func start(t *testing.T, cmd *exec.Cmd) (url string, finish func() error) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("no URL is printed")
	}
	return lines.Text(), func() error {
		_ = in.Close()
		return cmd.Wait()
	}
}

func TestDatabaseLivesAsLongAsTheCommand(t *testing.T) {
	t.Parallel()
	l := theirs(t)
	for name, c := range map[string]struct {
		flags    []string
		migrated bool
	}{"migrated": {nil, true}, "empty": {[]string{"-empty"}, false}} {
		cmd := command(l, append(c.flags, "sh", "-c", `echo "$DATABASE_URL"; read _; exit 7`)...)
		url, finish := start(t, cmd)
		if n := query(t, url, relations); (n > 0) != c.migrated {
			t.Errorf("%s: %d relations", name, n)
		}
		var exit *exec.ExitError
		if err := finish(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("%s: %v; want the command's exit status 7", name, err)
		}
		if n := query(t, l.URL("postgres"), ours); n != 0 {
			t.Errorf("%s: %d databases left", name, n)
		}
	}
}

// A terminal sends an interrupt to both; a supervisor terminates withdb alone.
func TestSignals(t *testing.T) {
	t.Parallel()
	l := theirs(t)
	cmd := command(l, "sh", "-c", `trap 'exit 8' TERM; echo "$DATABASE_URL"; while :; do sleep 0.1; done`)
	start(t, cmd)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 8 {
		t.Errorf("%v; want the command's exit status 8, after the second signal", err)
	}
	if n := query(t, l.URL("postgres"), ours); n != 0 {
		t.Errorf("%d databases left", n)
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	l := theirs(t)
	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"nothing to run":  {nil, 2, "usage: withdb"},
		"unknown flag":    {[]string{"-x", "true"}, 2, "not defined: -x"},
		"unknown command": {[]string{"no-such-command"}, 1, "no-such-command"},
	} {
		out, err := command(l, c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.status || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v, %s; want status %d and %q", name, err, out, c.status, c.says)
		}
	}
	if n := query(t, l.URL("postgres"), ours); n != 0 {
		t.Errorf("%d databases left", n)
	}
}
