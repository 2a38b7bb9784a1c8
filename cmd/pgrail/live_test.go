package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openlup/pgrail/internal/pgtest"
)

// A process is the command, running.
type process struct {
	*world
	cmd   *exec.Cmd
	lines chan string
	err   strings.Builder
}

func (w *world) start(args ...string) *process {
	w.Helper()
	p := &process{world: w, cmd: command(w.Context(), w.db.URL, args...), lines: make(chan string)}
	p.cmd.Stderr = &p.err
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	return p
}

// next is the next line of output, empty at its end.
func (p *process) next() string {
	p.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-time.After(20 * time.Second):
		p.Fatalf("no line in time; %s", p.err.String())
		return ""
	}
}

// interrupt ends the process as a person does, and returns its exit status.
func (p *process) interrupt() int {
	p.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.Fatal(err)
	}
	for range p.lines {
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// eventually polls a fact until it holds.
func (w *world) eventually(fact string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for holds := false; !holds; <-tick.C {
		if err := w.db.Pool.QueryRow(ctx, fact).Scan(&holds); err != nil {
			w.Fatalf("%s: %v", fact, err)
		}
	}
}

// looked holds when the command has ended its first look.
const looked = `select exists (select from pg_stat_activity where datname = current_database() and application_name = 'pgrail'
	and query like '%outbox_recent%' and state = 'idle')`

func (w *world) fresh(eventType string) {
	w.Helper()
	w.exec(`insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload) values ('order', $1, $2, gen_random_uuid(), '{}')`, id(0xa1), eventType)
}

func TestTail(t *testing.T) {
	t.Parallel()
	_, w := newTranscript(t)
	p := w.start("tail", "--every=50ms", "--type=order.paid")
	w.eventually(looked)
	w.fresh("order.shipped")
	w.fresh("order.paid")
	event := w.text(`select id::text from public.outbox_events where event_type = 'order.paid'`)
	step := func(want string) {
		t.Helper()
		clock, line, _ := strings.Cut(p.next(), "  ")
		if _, err := time.Parse(time.TimeOnly, clock); err != nil || strings.TrimSpace(line) != want {
			t.Errorf("%v %q, want %q", err, line, want)
		}
	}
	step("enqueued   " + event + "  order.paid  " + order(1))
	w.exec(`select public.outbox_claim_batch(array['order.paid'], array['order.shipped'])`)
	step("claimed    " + event + "  order.paid  " + order(1))
	w.exec(`select public.outbox_mark_failed(id, metadata ->> 'claimToken', E'no\tanswer', p_base_delay_seconds => 3600) from public.outbox_events where id = $1`, event)
	if line := p.next(); !strings.Contains(line, "  failed     "+event) || !strings.Contains(line, "attempt 1, due in ") || !strings.HasSuffix(line, ": no answer") {
		t.Errorf("%q", line)
	}
	w.exec(`delete from public.outbox_events`)
	step("deleted    " + event + "  order.paid  " + order(1))
	if code := p.interrupt(); code != 0 || p.err.String() != "Events show here as they move. Ctrl-C ends this.\n" {
		t.Errorf("interrupted: exit status %d, %q; that is how it ends", code, p.err.String())
	}
}

func TestTailInJSON(t *testing.T) {
	t.Parallel()
	_, w := newTranscript(t)
	p := w.start("tail", "--every=50ms", "--json", "--aggregate="+order(1))
	w.eventually(looked)
	w.fresh("order.paid")
	var got moveLine
	if err := json.Unmarshal([]byte(p.next()), &got); err != nil || got.Move != "enqueued" || got.EventType != "order.paid" || got.Aggregate != order(1) || got.At.IsZero() {
		t.Errorf("%v %+v", err, got)
	}
	if code := p.interrupt(); code != 0 {
		t.Errorf("interrupted: exit status %d", code)
	}
}

// A server that goes away while the command works is told from a failure of the command.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	_, w := newTranscript(t)
	p := w.start("tail", "--every=50ms")
	w.eventually(looked)
	w.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'pgrail'`)
	for range p.lines {
	}
	_ = p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); code != exitUnconnected || !strings.Contains(p.err.String(), "pgrail: the ") {
		t.Errorf("exit status %d, want %d; %q", code, exitUnconnected, p.err.String())
	}
}

// waits holds while the command waits for a lock.
const waits = `select exists (select from pg_stat_activity where datname = current_database() and application_name = 'pgrail' and wait_event_type = 'Lock')`

// What is broken off says so, and the server goes on with nothing of it.
func TestInterruptedWork(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"prune": {"prune", "--keep=0s", "--yes"}, "redrive": {"redrive", id(3).String(), "--reason=x"}, "discard": {"discard", id(1).String(), "--reason=x", "--yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, w := newTranscript(t)
			w.populate()
			conn := w.db.Connect(t)
			if _, err := conn.Exec(t.Context(), `begin; lock table public.outbox_events in exclusive mode`); err != nil {
				t.Fatal(err)
			}
			p := w.start(args...)
			w.eventually(waits)
			if code := p.interrupt(); code != exitInterrupted || !strings.HasPrefix(p.err.String(), "pgrail: interrupted") {
				t.Errorf("exit status %d, want %d; %q", code, exitInterrupted, p.err.String())
			}
			w.eventually("select not (" + strings.TrimPrefix(waits, "select ") + ")")
		})
	}
}

// A terminated one is broken off likewise.
func TestTerminated(t *testing.T) {
	t.Parallel()
	_, w := newTranscript(t)
	p := w.start("tail", "--every=50ms")
	w.eventually(looked)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range p.lines {
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Another session's lock is waited for as long as the database's settings say, and that is no failure of the command's.
func TestBusy(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{"lock_timeout": "others hold what this needs", "statement_timeout": "the server ended the statement"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			_, w := newTranscript(t, pgtest.Setting(setting, "500ms"))
			w.populate()
			conn := w.db.Connect(t)
			if _, err := conn.Exec(t.Context(), `begin; lock table public.outbox_events in exclusive mode`); err != nil {
				t.Fatal(err)
			}
			if r := pgrail(t, w.db.URL, "discard", id(1).String(), "--reason=x", "--yes"); r.code != exitFailed || !strings.Contains(r.err, want) {
				t.Errorf("exit status %d, want %q\n%s%s", r.code, want, r.out, r.err)
			}
		})
	}
}

// What the database's settings say of transactions does not matter.
func TestReadOnlyByDefault(t *testing.T) {
	t.Parallel()
	_, w := newTranscript(t, pgtest.Setting("default_transaction_isolation", "serializable"))
	w.populate()
	w.exec(`do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`)
	for _, args := range []string{"discard " + id(1).String() + " --reason=x --yes", "policy set a", "dormant add a --owner=x --reason=x", "prune --keep=0s --yes", "status"} {
		if r := pgrail(t, w.db.URL, strings.Fields(args)...); r.code != 0 {
			t.Errorf("%s: exit status %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
}
