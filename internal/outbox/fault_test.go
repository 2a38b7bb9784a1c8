package outbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/outbox/faulty"
	"github.com/openlup/pgrail/internal/pgtest"
)

// outcomes collects what became of events.
type outcomes struct {
	mu  sync.Mutex
	all []string
}

func (o *outcomes) note(_ Claimed, outcome string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, outcome)
}

func (o *outcomes) count(outcome string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range o.all {
		if one == outcome {
			n++
		}
	}
	return n
}

// Case L6 on a real server: the claim is committed, its reply is lost. The events come back at once, with a lease of an
// hour, and without their attempt.
func TestL6_ClaimCommittedReplyLost(t *testing.T) {
	r := newRig(t)
	r.insert("a", 30)
	line := &faulty.Line{}
	line.LoseReplies("outbox_claim_events", 3)
	cfg := testConfig("a")
	cfg.Lease = time.Hour
	w := r.run(cfg, func(c *pgxpool.Config) { line.Lay(c.ConnConfig) }, processed)
	r.done()
	w.stop()
	if line.Lost() != 3 || value[int](r, `select max(attempts) from public.outbox_events`) != 1 || w.log.lines("reply of a claim was lost") != 3 {
		t.Errorf("%d replies lost, at most %d attempts\n%s", line.Lost(), value[int](r, `select max(attempts) from public.outbox_events`), w.log)
	}
}

// Case L5 in the loop: an acknowledgement whose reply is lost is repeated, and known for what it is.
func TestL5_AckCommittedReplyLost(t *testing.T) {
	r := newRig(t)
	r.insert("a", 20)
	r.insert("b", 20)
	line := &faulty.Line{}
	line.LoseReplies("outbox_mark_processed_many", 1)
	got := &outcomes{}
	cfg := testConfig("a", "b")
	cfg.Settled = got.note
	w := r.run(cfg, func(c *pgxpool.Config) { line.Lay(c.ConnConfig) }, processed)
	r.done()
	w.stop()
	if line.Lost() != 1 || got.count("repeated") == 0 || got.count("repeated")+got.count("processed") != 40 {
		t.Errorf("%d replies lost, outcomes %v", line.Lost(), got.all)
	}
	if n := value[int](r, `select count(*) from public.outbox_events where attempts = 1`); n != 40 {
		t.Errorf("%d of 40 events took one attempt", n)
	}
}

// Case D1: the server ends the sessions again and again while events flow.
func TestD1_SessionsAreTerminated(t *testing.T) {
	r := newRig(t)
	r.insert("a", 200)
	var handled atomic.Int32
	more := make(chan struct{}, 1000)
	cfg := testConfig("a")
	cfg.Lease = time.Hour
	w := r.run(cfg, nil, func(context.Context, Claimed) Result {
		handled.Add(1)
		<-more
		return Result{Outcome: Processed}
	})
	for kill := range 10 {
		r.until(`exists (select from public.outbox_events where status = 'processing') and exists (select from pg_stat_activity
			where datname = current_database() and application_name = 'pgrail worker')`)
		r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'pgrail worker'`)
		for range 20 {
			more <- struct{}{}
		}
		r.until(`(select count(*) >= $1 from public.outbox_events where status = 'processed')`, 20*(kill+1))
	}
	r.done()
	w.stop()
	if handled.Load() != 200 || value[int](r, `select max(attempts) from public.outbox_events`) != 1 {
		t.Errorf("handled %d times, at most %d attempts\n%s", handled.Load(), value[int](r, `select max(attempts) from public.outbox_events`), w.log)
	}
}

// raising makes the server raise an SQLSTATE in the next n updates of events that set this status.
func (r *rig) raising(code, status string, n int) {
	r.Helper()
	r.exec(`create sequence public.raised`)
	r.exec(`create function public.raise_it() returns trigger language plpgsql as $$ begin
		if nextval('public.raised') <= ` + string(rune('0'+n)) + ` then raise exception using errcode = '` + code + `', message = 'provoked'; end if;
		return new; end $$`)
	r.exec(`create trigger zz_raise before update on public.outbox_events for each row when (new.status = '` + status + `') execute function public.raise_it()`)
}

// Case D1: each SQLSTATE that passes, provoked in claims and in acknowledgements, is waited out.
func TestD1_ProvokedStates(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01", "55P03", "57014", "25006", "08006", "53200", "57P01"} {
		for status := range map[string]bool{"processing": true, "processed": true} {
			t.Run(code+"_"+status, func(t *testing.T) {
				r := newRig(t)
				r.insert("a", 3)
				r.raising(code, status, 3)
				w := r.run(testConfig("a"), nil, processed)
				r.done()
				w.stop()
				if n := value[int](r, `select max(attempts) from public.outbox_events`); n != 1 || value[int](r, `select last_value from public.raised`) < 4 {
					t.Errorf("%d attempts", n)
				}
			})
		}
	}
}

// Case D1: a server that has become read-only is left: its sessions are ended, and new ones opened.
func TestD1_ReadOnlyMeansNewSessions(t *testing.T) {
	r := newRig(t)
	s := newStore(r.db.Pool, testConfig().Policy)
	pid := func() int { return value[int](r, `select pg_backend_pid()`) }
	before := pid()
	if after := pid(); after != before {
		t.Fatalf("the pool changed its only session (%d, %d)", before, after)
	}
	r.raising("25006", "processing", 1)
	r.insert("a", 1)
	if _, err := s.claim(t.Context(), ask{types: []string{"a"}, limit: 1}, nil, time.Minute); SQLState(err) != "25006" {
		t.Fatal(err)
	}
	if after := pid(); after == before {
		t.Error("still on the session of the server that is read-only")
	}
}

// Case D1: what nobody can cure by waiting stops the worker with an error that tells it.
func TestD1_FatalOnARealServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks  string
		outcome Outcome
		state   string
	}{
		"no claim":    {`alter function public.outbox_claim_events rename to gone`, Processed, "42883"},
		"no ack":      {`alter function public.outbox_mark_processed_many rename to gone`, Processed, "42883"},
		"no nack":     {`alter function public.outbox_mark_failed_many rename to gone`, Retry, "42883"},
		"no release":  {`alter function public.outbox_release_unprocessed rename to gone`, Release, "42883"},
		"no database": {``, Processed, "3D000"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.insert("a", 1)
			change := func(c *pgxpool.Config) { c.ConnConfig.Database = "pgrail_no_such_database" }
			if c.breaks != "" {
				r.exec(c.breaks)
				change = nil
			}
			w := r.run(testConfig("a"), change, func(context.Context, Claimed) Result { return Result{Outcome: c.outcome, Delay: -1} })
			select {
			case <-w.ended:
			case <-time.After(patience):
				t.Fatal("does not stop")
			}
			if SQLState(w.err) != c.state {
				t.Errorf("%v, want %s", w.err, c.state)
			}
			if unsettled := name != "no claim" && name != "no database"; unsettled != (w.left != nil) {
				t.Errorf("left %v", w.left)
			}
			w.once.Do(func() {}) // the end was not a clean one, and has been looked at
		})
	}
}

// A migration beside a running worker: the row type changes under its prepared statements.
func TestMigrationBesideTheWorker(t *testing.T) {
	r := newRig(t)
	r.insert("a", 5)
	w := r.run(testConfig("a"), nil, processed)
	r.done()
	r.exec(`alter table public.outbox_events add column later_version text`)
	r.exec(`alter table public.outbox_events drop column later_version`)
	r.insert("a", 5)
	r.done()
	w.stop()
}

// silent is a rail whose own notifications never arrive, as behind a pooler.
type silent struct{ rail }

func (silent) notifySelf(context.Context, string) error { return nil }

func (r *rig) listener(on rail, cfg Config, patience time.Duration) (*listener, *journal, func()) {
	r.Helper()
	pool, err := openPool(r.Context(), r.db.Pool.Config(), &link{})
	if err != nil {
		r.Fatal(err)
	}
	log := &journal{}
	cfg.Logger = newLogger(log)
	l := newListener((&link{}).ofOwn(pool), on, cfg, newAlarm())
	l.patience = patience
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-ended; pool.Close() })
	r.Cleanup(stop)
	return l, log, stop
}

// wait polls a fact.
func (r *rig) wait(what string, fact func() bool) {
	r.Helper()
	for deadline := time.Now().Add(patience); !fact(); {
		if time.Now().After(deadline) {
			r.Fatalf("waited in vain: %s", what)
		}
	}
}

// Case D7: a LISTEN that hears nothing is recognised by a test of its own, and said.
func TestD7_DeafListenerSaysSo(t *testing.T) {
	r := newRig(t)
	s := newStore(r.db.Pool, testConfig().Policy)
	l, log, _ := r.listener(silent{s}, testConfig("a"), 20*time.Millisecond)
	r.wait("the log tells", func() bool { return log.lines("level=WARN", "polling alone", "no notification can be heard") == 1 })
	if l.alarm.heard.Load() {
		t.Error("it pretends to hear")
	}
	if value[bool](r, `select exists (select from public.outbox_workers)`) {
		t.Error("a session that may be anyone's stands for the worker")
	}
}

// Case G5: the listener's session is ended; it comes back, rings once for what it may have missed, and hears again.
func TestG5_ListenerComesBack(t *testing.T) {
	r := newRig(t)
	s := newStore(r.db.Pool, testConfig().Policy)
	l, _, _ := r.listener(s, testConfig("a"), 3*time.Second)
	rung := func() {
		t.Helper()
		select {
		case <-l.alarm.rung:
		case <-time.After(patience):
			t.Fatal("not rung")
		}
	}
	for range 3 {
		r.wait("it hears", l.alarm.heard.Load)
		rung()
		r.exec(`update public.outbox_rail set asleep = true`)
		r.insert("a", 1)
		rung()
		r.until(`(select not asleep from public.outbox_rail)`)
		// Producers have been told to stop: the next insert is silent.
		r.insert("a", 1)
		r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'pgrail worker'`)
		r.wait("it notices", func() bool { return !l.alarm.heard.Load() || len(l.alarm.rung) > 0 })
	}
}

// A connection can die without a word: the listener makes sure now and then that it still hears.
func TestListenerTestsItselfAgain(t *testing.T) {
	r := newRig(t)
	s := &counting{rail: newStore(r.db.Pool, testConfig().Policy)}
	pool, err := openPool(t.Context(), r.db.Pool.Config(), &link{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l := newListener((&link{}).ofOwn(pool), s, Config{Types: []string{"a"}, Logger: newLogger(&journal{})}, newAlarm())
	l.interval = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.run(ctx) }()
	r.wait("tests", func() bool { return s.n.Load() > 5 })
	if n := value[int](r, `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'pgrail worker'`); n != 1 {
		t.Errorf("%d sessions to listen on", n)
	}
	// From now on its tests fail, and it says that it hears nothing.
	s.broken.Store(true)
	r.wait("it notices", func() bool { return !l.alarm.heard.Load() })
	cancel()
	<-ended
}

// counting counts the tests of a listener, and can break them.
type counting struct {
	rail
	n      atomic.Int32
	broken atomic.Bool
}

func (c *counting) notifySelf(ctx context.Context, probe string) error {
	c.n.Add(1)
	if c.broken.Load() {
		return errors.New("broken")
	}
	return c.rail.notifySelf(ctx, probe)
}

// Two services with types of their own share the rail: when the busy one wakes, the sleeping one must be woken too.
func TestBusyWorkerDoesNotMuffleASleepingOne(t *testing.T) {
	r := newRig(t, pgtest.Setting("timezone", "UTC"))
	sleepy, busy := testConfig("a"), testConfig("b")
	sleepy.PollInterval, busy.PollInterval = 10*time.Minute, 10*time.Minute
	got := make(chan Claimed, 10)
	release := make(chan struct{})
	busy.Concurrency = 1
	first := r.run(sleepy, nil, func(_ context.Context, e Claimed) Result { got <- e; return Result{Outcome: Processed} })
	second := r.run(busy, nil, func(context.Context, Claimed) Result { <-release; return Result{Outcome: Processed} })
	r.until(`(select count(*) = 2 from public.outbox_workers) and (select asleep from public.outbox_rail)`)
	// The busy one is woken, fills its only slot, and is woken again while it has none.
	r.insert("b", 3)
	r.until(`exists (select from public.outbox_events where status = 'processing')`)
	for range 3 {
		r.until(`(select asleep from public.outbox_rail)`)
		r.insert("b", 1)
	}
	r.until(`(select asleep from public.outbox_rail)`)
	r.insert("a", 1)
	select {
	case <-got:
	case <-time.After(patience):
		t.Error("the sleeping worker was not woken")
	}
	close(release)
	first.stop()
	second.stop()
}
