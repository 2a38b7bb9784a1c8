package pgrail_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// steps is a newcomer's folder with two programs and an empty database.
type steps struct {
	*testing.T
	dir  string
	conn *pgx.Conn
	env  []string
}

func newSteps(t *testing.T) *steps {
	t.Helper()
	s := &steps{T: t, dir: t.TempDir()}
	s.build(".", "./cmd/pgrail", "pgrail")
	s.build("examples", "./first", "first")
	home, err := pgx.Connect(t.Context(), os.Getenv("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	name := "pgrail_first_" + strings.ToLower(rand.Text()[:12])
	if _, err := home.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := home.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = home.Close(context.Background())
	})
	u, err := url.Parse(os.Getenv("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	s.env = append(os.Environ(), "DATABASE_URL="+u.String())
	if s.conn, err = pgx.Connect(t.Context(), u.String()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *steps) build(module, what, name string) {
	s.Helper()
	build := exec.CommandContext(s.Context(), "go", "build", "-C", module, "-o", filepath.Join(s.dir, name), what)
	if out, err := build.CombinedOutput(); err != nil {
		s.Fatalf("build %s: %v\n%s", what, err, out)
	}
}

func (s *steps) command(line string) *exec.Cmd {
	words := strings.Fields(line)
	cmd := exec.CommandContext(s.Context(), filepath.Join(s.dir, words[0]), words[1:]...)
	cmd.Env = s.env
	return cmd
}

// run wants a command to succeed and to print something.
func (s *steps) run(line, want string) string {
	s.Helper()
	out, err := s.command(line).CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		s.Fatalf("$ %s: %v\n%s\nwant %q in it", line, err, out, want)
	}
	return string(out)
}

// work runs the worker until an event has come to rest.
func (s *steps) work(id, status string) string {
	s.Helper()
	var out strings.Builder
	worker := s.command("first")
	worker.Stdout, worker.Stderr = &out, &out
	if err := worker.Start(); err != nil {
		s.Fatal(err)
	}
	for got, deadline := "", time.Now().Add(time.Minute); got != status; {
		if err := s.conn.QueryRow(s.Context(), `SELECT status FROM public.outbox_events WHERE id = $1::text::uuid`, id).Scan(&got); err != nil {
			s.Fatal(err)
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s is %s, want %s", id, got, status)
		}
	}
	if err := worker.Process.Signal(os.Interrupt); err != nil {
		s.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		s.Fatalf("the worker ends with %v\n%s", err, &out)
	}
	return out.String()
}

var eventLine = regexp.MustCompile(`^event ([0-9a-f-]{36})\n$`)

// TestFirstSteps is the way that README takes a newcomer, but for the mending of the handler: see it, break it, find out
// why, redrive it.
func TestFirstSteps(t *testing.T) {
	s := newSteps(t)
	place := func(cents string) string {
		t.Helper()
		match := eventLine.FindStringSubmatch(s.run("first "+cents, "event "))
		if match == nil {
			t.Fatal("no id is printed")
		}
		return match[1]
	}
	good := place("1290")
	s.run("pgrail status", "order.placed  1        1 ")
	if out := s.work(good, "processed"); out != "shipped an order of 1290 cents, try 1\n" {
		t.Errorf("the worker prints %q", out)
	}
	bad := place("-5")
	if out := s.work(bad, "discarded"); !strings.Contains(out, "event discarded") {
		t.Errorf("the worker prints %q", out)
	}
	s.run("pgrail status", "order.placed  0        0    0          0       0        1 ")
	if text := s.run("pgrail explain "+bad, "less than nothing"); !strings.Contains(text, "pgrail redrive "+bad+" --reason=") {
		t.Errorf("explain does not say what to do:\n%s", text)
	}
	s.run("pgrail redrive "+bad+" --reason=mended", "1 redriven")
	s.run("pgrail status", "order.placed  1        1 ")
}
