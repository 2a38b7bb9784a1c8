package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// serverVariable names a server on which tests make databases. Without it the test binary has itself run by the program
// that gives make demo its server.
const serverVariable = "DATABASE_URL"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		os.Exit(m.Run())
	}
	err := underServer()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func underServer() error {
	dir, err := os.MkdirTemp("", "pgrail-examples-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	withdb := filepath.Join(dir, "withdb")
	build := exec.Command("go", "build", "-C", "../..", "-o", withdb, "./internal/pgtest/withdb")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build withdb: %w", err)
	}
	run := exec.Command(withdb, append([]string{"-empty"}, os.Args...)...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	return run.Run()
}

// newDatabase makes an empty database and returns its URL.
func newDatabase(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	server, err := pgx.Connect(ctx, os.Getenv(serverVariable))
	if err != nil {
		t.Fatal(err)
	}
	name := "shop_" + strings.ToLower(rand.Text()[:12])
	if _, err := server.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = server.Close(ctx)
	})
	u, err := url.Parse(os.Getenv(serverVariable))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// newDemo is a demo that writes to the test's log.
func newDemo(t *testing.T, databaseURL string) (d *demo, out, problems *strings.Builder) {
	t.Helper()
	out, problems = &strings.Builder{}, &strings.Builder{}
	d = &demo{databaseURL: databaseURL, workers: 2, rounds: 2, out: out, problems: problems, log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { t.Logf("it printed:\n%s%s", out, problems) })
	return d, out, problems
}

// shipped is the beginning of the file that comes with the demo.
func shipped(t *testing.T, lines int) string {
	t.Helper()
	text, err := os.ReadFile("events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(string(text), "\n")
	return strings.Join(all[:min(lines, len(all))], "")
}

// drip is input that comes line by line, calls end after the last one, and then neither gives more nor ends.
type drip struct {
	lines []string
	end   func()
	never chan struct{}
}

func newDrip(t *testing.T, text string, end func()) *drip {
	d := &drip{strings.SplitAfter(text, "\n"), end, make(chan struct{})}
	t.Cleanup(func() { close(d.never) })
	return d
}

func (d *drip) Read(p []byte) (int, error) {
	if len(d.lines) == 0 {
		d.end()
		<-d.never
		return 0, io.EOF
	}
	n := copy(p, d.lines[0])
	d.lines = d.lines[1:]
	return n, nil
}
