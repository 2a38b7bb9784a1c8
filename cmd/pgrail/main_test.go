package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/pgtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// asCommand makes the test binary behave as the command itself.
const asCommand = "PGRAIL_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	pgtest.Main(m)
}

// A result is what a process has left.
type result struct {
	code     int
	out, err string
}

// command prepares a process of the command against a database; url may be empty.
func command(ctx context.Context, url string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = []string{
		asCommand + "=1", "DATABASE_URL=" + url, "HOME=" + os.TempDir(), "PATH=" + os.Getenv("PATH"),
		"GORACE=atexit_sleep_ms=0", // else the race detector has each process wait for a second at its end
	}
	return cmd
}

func pgrail(t *testing.T, url string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := command(ctx, url, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// A transcript compares what commands print, and their exit statuses, with a golden file.
type transcript struct {
	*testing.T
	url  string
	text strings.Builder
}

func (s *transcript) run(args ...string) result {
	s.Helper()
	r := pgrail(s.T, s.url, args...)
	for i, arg := range args {
		if strings.ContainsAny(arg, " $*\"") || arg == "" {
			args[i] = "'" + arg + "'"
		}
	}
	fmt.Fprintf(&s.text, "$ pgrail %s\n%s", strings.Join(args, " "), r.out)
	for line := range strings.Lines(r.err) {
		fmt.Fprintf(&s.text, "! %s", line)
	}
	fmt.Fprintf(&s.text, "= %d\n\n", r.code)
	return r
}

// passing replaces what differs from run to run.
var passing = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "DATE"},
	{regexp.MustCompile(`("\w+_seconds": )-?[\d.]+`), "${1}SECONDS"},
	{regexp.MustCompile(`\b(\d+h)\d\dm\b`), "${1}MMm"},
	{regexp.MustCompile(`("claimToken": )"[0-9a-f-]+"`), "${1}TOKEN"},
	{regexp.MustCompile(`pgrail_[a-z0-9]{12}\b`), "ROLE"},
}

func (s *transcript) compare(name string) {
	s.Helper()
	got := s.text.String()
	for _, p := range passing {
		got = p.pattern.ReplaceAllString(got, p.by)
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			s.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		s.Errorf("%s (-want +got; go test -update writes it anew):\n%s", path, diff)
	}
}

func newTranscript(t *testing.T, opts ...pgtest.Option) (*transcript, *world) {
	t.Helper()
	d := pgtest.New(t, opts...)
	return &transcript{T: t, url: d.URL}, &world{t, d}
}

// A world is a test's database with events in all states.
type world struct {
	*testing.T
	db *pgtest.DB
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.db.Pool.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s\n%v", sql, err)
	}
}

func (w *world) text(sql string, args ...any) (text string) {
	w.Helper()
	if err := w.db.Pool.QueryRow(w.Context(), sql, args...).Scan(&text); err != nil {
		w.Fatalf("%s\n%v", sql, err)
	}
	return text
}

// id of an event, and of an aggregate.
func id(n byte) uuid.UUID { return uuid.UUID{15: n} }

func order(n byte) string { return "order/" + id(0xa0+n).String() }

// insert writes event n of aggregate agg, so many hours old and a half: so that minutes do not show.
func (w *world) insert(n, agg byte, eventType string, hours int) {
	w.Helper()
	w.exec(`insert into public.outbox_events (id, created_at, available_at, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
		values ($1, clock_timestamp() - make_interval(hours => $2, mins => 30), clock_timestamp() - make_interval(hours => $2, mins => 30), 'order', $3, $4, 'key ' || $5, $6)`,
		id(n), hours, id(0xa0+agg), eventType, fmt.Sprint(n), `{"total": 12.50, "note": "<b>"}`)
}

// settle claims the events of a type and ends event n with an outcome: processed, retry or discard.
func (w *world) settle(n byte, eventType, outcome, message string) {
	w.Helper()
	w.exec(`select public.outbox_claim_batch(array[$1::text], array['order.created'], p_batch_size => 100)`, eventType)
	token := w.text(`select metadata ->> 'claimToken' from public.outbox_events where id = $1`, id(n))
	if outcome == "processed" {
		w.exec(`select public.outbox_mark_processed($1, $2)`, id(n), token)
		return
	}
	w.exec(`select public.outbox_mark_failed($1, $2, $3, $4)`, id(n), token, message, outcome)
}

var worker = uuid.UUID{0: 0xfe}

// populate makes one aggregate per way not to move.
func (w *world) populate() {
	w.Helper()
	w.insert(1, 1, "order.created", 30) // nobody takes it
	w.insert(2, 1, "order.paid", 29)    // and so this one is blocked
	w.insert(3, 2, "order.refunded", 10)
	w.exec(`insert into public.outbox_event_policies (event_type, on_discard) values ('order.refunded', 'halt')`)
	w.settle(3, "order.refunded", "discard", "no such\naccount \x1b[31m")
	w.insert(4, 2, "order.refunded", 9) // halted by the one before
	w.insert(5, 3, "order.shipped", 5)
	w.settle(5, "order.shipped", "retry", "carrier: 503")
	w.exec(`update public.outbox_events set available_at = clock_timestamp() + interval '2 hours 30 minutes' where id = $1`, id(5))
	w.insert(6, 3, "order.shipped", 4) // behind one that waits for its retry
	w.insert(7, 4, "order.billed", 3)
	w.settle(7, "order.billed", "processed", "")
	w.insert(8, 5, "order.packed", 2)
	w.exec(`insert into public.outbox_workers (holder, event_types, started_at, seen_at)
		values ($1, array['order.packed', 'order.billed'], clock_timestamp() - interval '3 hours 30 minutes', clock_timestamp() + interval '1 hour')`, worker)
	w.exec(`select public.outbox_claim_events(array['order.packed'], '{}', 10, 3600, 8, $1)`, worker)
	w.exec(`update public.outbox_events set available_at = clock_timestamp() + interval '2 hours 30 minutes' where id = $1`, id(8))
	w.insert(9, 6, "order.archived", 50)
	w.exec(`insert into public.outbox_dormant_event_types (event_type, owner, reason) values ('order.archived', 'archive team', 'their consumer comes in May')`)
	w.insert(10, 7, "order.packed", 1)
	w.exec(`update public.outbox_events set status = 'processing', attempts = 1 where id = $1`, id(10))
}
