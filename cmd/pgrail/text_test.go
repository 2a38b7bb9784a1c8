package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 400 * time.Millisecond: "0s", 600 * time.Millisecond: "1s", 59 * time.Second: "59s", 60 * time.Second: "1m", 61 * time.Second: "1m1s",
		time.Hour: "1h", time.Hour + time.Second: "1h", 90 * time.Minute: "1h30m", 24 * time.Hour: "1d", 49 * time.Hour: "2d1h", 1000 * 24 * time.Hour: "1000d",
		-61 * time.Second: "1m1s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "8w": 56 * 24 * time.Hour, "99999d": maxDays * 24 * time.Hour, "99999w": maxDays * 24 * time.Hour,
		"": -1, "d": -1, "-1d": -1, "1.5d": -1, "30 d": -1, "-1s": -1, "1y": -1, "999999d": -1,
	} {
		var d days
		err := d.UnmarshalText([]byte(text))
		if (err != nil) != (want < 0) || err == nil && time.Duration(d) != want {
			t.Errorf("%q: %v, %v; want %v", text, time.Duration(d), err, want)
		}
	}
}

// A type may hold a slash; the id never does.
func TestAggregateArgument(t *testing.T) {
	t.Parallel()
	var got aggregate
	if err := got.UnmarshalText([]byte("shop/order/" + id(1).String())); err != nil || got != (aggregate{"shop/order", id(1)}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Texts from the database cannot move the cursor, colour the screen, or break a table.
func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := newTable(&out)
	table.row("TYPE", "NOTE")
	table.row("a\tb\nc", "")
	table.row("ünïcode", "\x1b[31m\x00\u202e")
	table.line("below\n  \x1b indented")
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	want := "TYPE     NOTE\na b c\nünïcode  ?[31m??\nbelow\n  ? indented\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	for perSecond, want := range map[float64]string{0: "0", 0.0166: "0.017", 2.34: "2.3", 9.99: "10", 123.4: "123"} {
		if got := rate(perSecond); got != want {
			t.Errorf("%v: %s, want %s", perSecond, got, want)
		}
	}
}

// Whatever way the driver says that the connection broke, no address gets out.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&net.OpError{Op: "write", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, Err: syscall.EPIPE}, io.EOF, io.ErrUnexpectedEOF,
		&pgconn.PgError{Code: "57P01", Message: "terminating connection"},
	} {
		text, code := describe(t.Context(), fmt.Errorf("doing: %w", err))
		if code != exitUnconnected || strings.Contains(text, "10.0.0.1") || !strings.Contains(text, "\nTry again") {
			t.Errorf("%v: exit status %d, %s", err, code, text)
		}
	}
}

func TestProgressIsNotedOnceASecond(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	a := &app{errOut: &errOut}
	often := a.progress(0, "%d of %d")
	seldom := a.progress(time.Hour, "%d of %d")
	for n := range 3 {
		often(n, 3)
		seldom(n, 3)
	}
	if got := errOut.String(); got != "0 of 3\n1 of 3\n2 of 3\n" {
		t.Errorf("noted %q", got)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"":                  "migrate status tail show explain redrive discard resume dormant policy prune grant doctor version completion",
		"re":                "redrive resume",
		"dormant|":          "add remove list",
		"dormant|re":        "remove",
		"grant|":            "producer worker operator identity inbox",
		"completion|z":      "zsh",
		"redrive|--d":       "--database --discard-reason --dry-run",
		"prune|--keep=1d|":  "",
		"--json|migrate|up": "up",
		"no|such|":          "",
		// What has been given already is not offered again, whichever way a flag's value is written.
		"grant|worker|": "", "grant|--database|x|w": "worker", "--database=x|grant|p": "producer", "--json|grant|i": "identity inbox",
		"redrive|--reason|grant|": "",
	} {
		r := pgrail(t, "", append([]string{"complete", "--"}, strings.Split(words, "|")...)...)
		if got := strings.Join(strings.Fields(r.out), " "); r.code != 0 || got != want {
			t.Errorf("%q: exit status %d, %s, want %s", words, r.code, got, want)
		}
	}
}

// An empty last word must reach the command, and no word may be split or expanded on the way: so each script quotes the words
// or, as in fish, which splits none, passes them on as they are.
func TestCompletionScriptsPassWordsOn(t *testing.T) {
	t.Parallel()
	for shell, words := range map[string]string{
		"bash": `"${COMP_WORDS[@]:1:COMP_CWORD}"`,
		"zsh":  `"${(@)words[2,CURRENT]}"`,
		"fish": `(commandline -opc)[2..] (commandline -ct)`,
	} {
		r := pgrail(t, "", "completion", shell)
		if n := strings.Count(r.out, "pgrail complete -- "+words); n != 1 {
			t.Errorf("%s passes on its words %d times\n%s", shell, n, r.out)
		}
	}
}

// The scripts are what each shell takes, where the machine has it.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	shells := 0
	for _, shell := range []string{"bash", "zsh", "fish"} {
		r := pgrail(t, "", "completion", shell)
		if r.code != 0 || !strings.Contains(r.out, "pgrail complete -- ") {
			t.Errorf("%s: exit status %d\n%s%s", shell, r.code, r.out, r.err)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		shells++
		check := exec.CommandContext(context.WithoutCancel(t.Context()), path, "-n")
		check.Stdin = strings.NewReader(r.out)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v\n%s", shell, err, out)
		}
	}
	t.Logf("checked by %d shells", shells)
}

// Bash completes by the script, words and flags.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("this test needs bash, as the project's own scripts do")
	}
	const try = `pgrail() { "$COMMAND" "$@"; }
	source <(pgrail completion bash)
	COMP_WORDS=(pgrail dormant re); COMP_CWORD=2; _pgrail; echo "${COMPREPLY[@]}"
	COMP_WORDS=(pgrail migrate ""); COMP_CWORD=2; _pgrail; echo "${COMPREPLY[@]}"`
	cmd := command(t.Context(), "")
	script := exec.CommandContext(t.Context(), bash, "-c", try)
	script.Env = append(cmd.Env, "COMMAND="+cmd.Path)
	out, err := script.CombinedOutput()
	if err != nil || string(out) != "remove\nup status verify\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
