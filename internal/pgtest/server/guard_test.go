package server_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

// envChild makes this test binary a program that starts a server and comes to
// the named end.
const envChild = "PGRAIL_SERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if end := os.Getenv(envChild); end != "" {
		child(end)
	}
	os.Exit(m.Run())
}

func child(end string) {
	l, err := server.StartLocal(context.Background(), server.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	if end == "kept" {
		l.Keep(time.Hour)
	}
	fmt.Println(l.URL("postgres"))
	fmt.Println(l.LogFile())
	switch end {
	case "panic":
		panic("the end")
	case "return":
		os.Exit(0)
	}
	select {}
}

// runChild returns when the child's server runs.
func runChild(t *testing.T, end string) (cmd *exec.Cmd, url, dir string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+end)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var said []string
	for len(said) < 2 && lines.Scan() {
		said = append(said, lines.Text())
	}
	if len(said) < 2 {
		t.Fatalf("the child said %q", said)
	}
	return cmd, said[0], filepath.Dir(said[1])
}

// A server must go however its program ends, and with its last file.
func TestServerEndsWithItsProgram(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"return", "panic", "kill"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			cmd, url, dir := runChild(t, end)
			if end == "kill" {
				if got := query(t, url, "SELECT 'runs'"); got != "runs" {
					t.Error(got)
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait() // how it ended is the case's own
			eventually(t, "the server's directory is gone", func() bool { return !exists(dir) })
			eventually(t, "no process works in it", func() bool { return len(processesIn(t, dir)) == 0 })
		})
	}
}

// processesIn lists processes that name dir in their arguments.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-eo", "args").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

func TestKeptServerOutlivesItsProgram(t *testing.T) {
	t.Parallel()
	cmd, url, dir := runChild(t, "kept")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// The guard sees the end at once: a second is ample for it to do wrong.
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if got := query(t, url, "SELECT 'runs'"); got != "runs" {
			t.Error(got)
		}
	}
	if err := os.Remove(filepath.Join(dir, "keep")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server's directory is gone", func() bool { return !exists(dir) })
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("the server still answers")
	}
}
