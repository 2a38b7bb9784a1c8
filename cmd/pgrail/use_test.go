package main

import (
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/openlup/pgrail/internal/pgtest"
)

// Wrong use is told before any connection is made.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	s := &transcript{T: t, url: "postgres://nobody@127.0.0.1:1/none?sslmode=disable"}
	for _, args := range [][]string{
		{}, {"sttus"}, {"status", "--no-such-flag"}, {"status", "surplus"}, {"status", "--limit=0"}, {"status", "--top=1001"}, {"status", "--idle=-5m"},
		{"status", "--idle=soon"}, {"tail", "--every=1ms"}, {"tail", "--aggregate=order"}, {"show"}, {"show", "17"}, {"explain", "17"}, {"explain", "order/17"},
		{"explain", "/00000000-0000-0000-0000-000000000001"}, {"explain", "00000000-0000-0000-0000-000000000001", "--behind=0"},
		{"redrive"}, {"redrive", "--all"}, {"redrive", "--all", "--reason= "}, {"redrive", "00000000-0000-0000-0000-000000000001", "--all", "--reason=x"},
		{"redrive", "--all", "--limit=100001", "--reason=x"}, {"discard", "--type=a"}, {"discard", "--status=processed", "--reason=x"}, {"resume", "order"},
		{"dormant"}, {"dormant", "add", "a"}, {"dormant", "add", "a", "--owner= ", "--reason=x"}, {"dormant", "add", " ", "--owner=x", "--reason=x"},
		{"policy", "set", "a", "--max-attempts=21"}, {"policy", "set", "a", "--max-snoozes=-1"}, {"policy", "set", "a", "--on-discard=stop"}, {"policy", "set", ""},
		{"prune"}, {"prune", "--keep=30"}, {"prune", "--keep=1d", "--batch=10001"}, {"prune", "--keep=1d", "--keep-discarded=-1d"},
		{"prune", "--keep-discarded=1d"}, {"prune", "--keep-inbox=1d", "--keep-discarded=1d"}, {"prune", "--keep=1d", "--source=github"}, {"prune", "--keep-inbox=30"},
		{"grant", "admin", "me"}, {"grant", "worker"}, {"completion", "tcsh"}, {"migrate"}, {"migrate", "down"},
		{"migrate", "status", "--table=nodot"}, {"migrate", "up", "--table=a.b.c"}, {"doctor", "--table=a.b; drop table c"},
	} {
		if r := s.run(args...); r.code != exitUse || r.out != "" {
			t.Errorf("%q: exit status %d, want %d and no output\n%s%s", args, r.code, exitUse, r.out, r.err)
		}
	}
	s.compare("use")
}

const secret = "s3cr3t"

// No message holds a connection string or a part of it, wherever it was given and whatever is wrong with it.
func TestNoMessageHoldsTheConnectionString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url  string
		code int
	}{
		{"", exitUse},
		{"postgres://me:" + secret + "@127.0.0.1:1/mydb?sslmode=disable", exitUnconnected},
		{"postgres://me:" + secret + "@no-such-host.invalid/mydb", exitUnconnected},
		{"postgres://me:" + secret + "@127.0.0.1:port/mydb", exitUse},
		{"host=127.0.0.1 port=1 user=me password=" + secret + " dbname=mydb", exitUnconnected},
		{"host=127.0.0.1 user=me password='" + secret + "' sslmode=perhaps", exitUse},
		{secret, exitUse},
	} {
		for _, args := range [][]string{{"status"}, {"migrate", "up"}, {"doctor", "--json"}} {
			for _, r := range []result{pgrail(t, c.url, args...), pgrail(t, "", append(args, "--database="+c.url)...)} {
				if r.code != c.code || !strings.Contains(r.err, "\n") || strings.Contains(r.err+r.out, secret) || strings.Contains(r.err+r.out, "mydb") {
					t.Errorf("%v with %s: exit status %d, want %d\n%s%s", args, c.url, r.code, c.code, r.out, r.err)
				}
			}
		}
	}
	for _, args := range [][]string{
		{"status", "postgres://me:" + secret + "@host/mydb"}, {"show", "postgresql://me:" + secret + "@host/mydb"}, {"explain", "host=h PASSWORD = '" + secret + " x'"},
		{"redrive", "--type=a", "--reason", "x", "--limit", "password=" + secret},
	} {
		if r := pgrail(t, "", args...); r.code != exitUse || strings.Contains(r.err, secret) {
			t.Errorf("%v: exit status %d\n%s", args, r.code, r.err)
		}
	}
}

// answering stands for a server that answers each attempt to connect with an error, and returns its URL.
func answering(t *testing.T, state string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			backend := pgproto3.NewBackend(conn, conn)
			if _, err := backend.ReceiveStartupMessage(); err == nil {
				backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: state, Message: `refused: user "me", database "mydb"`})
				_ = backend.Flush()
			}
			_, _ = io.Copy(io.Discard, conn) // until the other side has read it
			_ = conn.Close()
		}
	}()
	return "postgres://me:" + secret + "@" + listener.Addr().String() + "/mydb?sslmode=disable"
}

func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	s := &transcript{T: t}
	for _, state := range []string{"28P01", "28000", "3D000", "42501", "53300", "57P03", "XX000"} {
		s.url = answering(t, state)
		if r := s.run("status"); r.code != exitUnconnected || strings.Contains(r.err, "me") && strings.Contains(r.err, `"me"`) {
			t.Errorf("%s: exit status %d, want %d\n%s", state, r.code, exitUnconnected, r.err)
		}
		if r := pgrail(t, s.url, "migrate", "up"); r.code != exitUnconnected {
			t.Errorf("%s: migrate up: exit status %d, want %d\n%s", state, r.code, exitUnconnected, r.err)
		}
	}
	s.compare("refused")
}

// Every command that needs the schema says that it is not there, and how to get it.
func TestNotMigrated(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t, pgtest.Empty())
	for _, args := range []string{
		"status", "tail", "show " + id(1).String(), "explain " + id(1).String(), "explain " + order(1), "redrive --all --dry-run",
		"redrive " + id(1).String() + " --reason=x", "discard --all --reason=x", "resume " + order(1), "dormant list", "dormant add a --owner=x --reason=x",
		"policy list", "policy set a", "prune --keep=1d", "prune --keep=1d --yes", "grant worker postgres",
	} {
		if r := pgrail(t, d.URL, strings.Fields(args)...); r.code != exitUnmigrated || !strings.HasSuffix(r.err, "Run: pgrail migrate up\n") {
			t.Errorf("%s: exit status %d, want %d\n%s%s", args, r.code, exitUnmigrated, r.out, r.err)
		}
	}
}

// One static binary, as it is built from the command's directory.
func TestBuildsToAStaticBinary(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pgrail")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, path, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "pgrail  ") || !strings.Contains(string(out), "\nschema  00") {
		t.Errorf("%v\n%s", err, out)
	}
}
