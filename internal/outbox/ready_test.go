package outbox

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Claims that file what is blocked come back with nothing, many in a row, and the loop must not take that for an idle rail:
// with pauses that double the fresh events behind would come after a quarter of an hour.
func TestP5_FilingIsNotIdling(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		rail.window = 5
		for range 101 {
			rail.add("a", 1)
		}
		fresh := rail.add("a", 2)
		cfg := testConfig("a")
		cfg.PollInterval = time.Minute
		begun, handed, release := time.Now(), make(chan time.Duration), make(chan struct{})
		b := launch(t, rail, cfg, func(_ context.Context, e Claimed) Result {
			if e.ID == fresh.ID {
				handed <- time.Since(begun)
			}
			<-release
			return Result{Outcome: Processed}
		})
		b.bell.heard.Store(true)
		// Twenty claims file five each, and the next gets to the fresh event; one more may have begun.
		if after := <-handed; after > 20*deepPause/2 || rail.called("claim") > 22 || rail.called("fallAsleep") != 0 {
			t.Errorf("handed out after %v and %d claims, %d requests to be woken", after, rail.called("claim"), rail.called("fallAsleep"))
		}
		// From now on the rail is idle, whatever is filed.
		before := rail.called("claim")
		elapse(10 * time.Minute)
		if n := rail.called("claim") - before; n > 60 || rail.called("fallAsleep") == 0 {
			t.Errorf("%d looks at an idle rail, %d requests to be woken", n, rail.called("fallAsleep"))
		}
		close(release)
		synctest.Wait()
		b.stop()
	})
}

// What others hold is looked at often, and not as often as can be; when they hold it for long, as often as an idle rail. While
// that is asked for in vain the claim loop goes on as it does for a claim that fails.
func TestReadyButLockedIsNoBusyLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		row := rail.put("a", 1, func(row *fakeRow) { row.locked = true })
		b := launch(t, rail, testConfig("a"), processed)
		elapse(10 * time.Second)
		if n := rail.called("claim"); n < 200 || n > 1000 {
			t.Errorf("%d looks in ten seconds at what others hold", n)
		}
		elapse(readyPatience)
		before := rail.called("claim")
		elapse(time.Minute)
		if n := rail.called("claim") - before; n < 50 || n > 130 {
			t.Errorf("%d looks in a minute at what others hold for long", n)
		}
		var failing atomic.Bool
		failing.Store(true)
		rail.mu.Lock()
		rail.before = func(_ context.Context, call string) error {
			if call == "anyReady" && failing.Load() {
				return errors.New("connection reset")
			}
			return nil
		}
		rail.mu.Unlock()
		elapse(time.Minute)
		failing.Store(false)
		rail.mu.Lock()
		row.locked = false
		rail.mu.Unlock()
		elapse(15 * time.Second)
		if row.status != "processed" || b.log.lines("WARN", "claims fail", "connection reset") == 0 {
			t.Errorf("the event is %s\n%s", row.status, b.log)
		}
		b.stop()
	})
}

// A type that rests is not claimed, so its ready events are no reason to look again.
func TestReadyOfARestingTypeIsNotAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		for n := range 3 {
			rail.add("a", n)
		}
		b := launch(t, rail, testConfig("a"), func(context.Context, Claimed) Result {
			return Result{Outcome: Snooze, Unavailable: true}
		})
		synctest.Wait()
		rail.add("a", 4)
		before := rail.called("claim")
		elapse(3 * time.Second)
		if n := rail.called("claim") - before; n > 0 || b.loop.breakers.rest("a") == 0 {
			t.Errorf("%d claims of a type that rests for %v", n, b.loop.breakers.rest("a"))
		}
		b.stop()
	})
}

// backlog writes, each in a transaction of its own, a first event of an aggregate, n more of it, and then five of others: none
// of the n is filed as queued, because its writer could not know that the first would still be there.
func (r *rig) backlog(n int) {
	r.Helper()
	r.exec(`do $$ begin
		for i in 0..` + strconv.Itoa(n) + ` loop
			insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
			values ('order', '00000000-0000-0000-0000-000000000001', 'a', 'old ' || i, '{}');
			commit;
		end loop;
		for i in 1..5 loop
			insert into public.outbox_events (aggregate_type, aggregate_id, event_type, idempotency_key, payload)
			values ('order', gen_random_uuid(), 'a', 'fresh ' || i, '{}');
			commit;
		end loop; end $$`)
	if queued := value[int](r, `select count(*) from public.outbox_events where lane <> 'ready'`); queued != 0 {
		r.Fatalf("%d events are filed already", queued)
	}
}

// The same on a real server: behind the first of 3,001 events of one aggregate, whose handler is busy, the fresh ones are
// handed out by the ninth claim at the latest, and before the worker thinks of falling asleep.
func TestP5_FreshBehindABacklogOfOneAggregate(t *testing.T) {
	r := newRig(t)
	r.backlog(3000)
	cfg := testConfig("a")
	cfg.PollInterval = time.Minute
	var claims, fresh atomic.Int32
	cfg.Observer.Claimed = func(int, time.Duration) { claims.Add(1) }
	release, handed := make(chan struct{}), make(chan int32, 5)
	w := r.run(cfg, nil, func(_ context.Context, e Claimed) Result {
		if e.IdempotencyKey == "old 0" {
			<-release
		} else if fresh.Load() < 5 {
			fresh.Add(1)
			handed <- claims.Load()
		}
		return Result{Outcome: Processed}
	})
	var all []int32
	for range 5 {
		select {
		case n := <-handed:
			all = append(all, n)
		case <-time.After(patience):
			t.Fatal("fresh events do not come")
		}
	}
	if n := slices.Max(all); n > 9 {
		t.Errorf("handed out by claim %d", n)
	}
	if value[bool](r, `select asleep from public.outbox_rail`) {
		t.Error("the worker went to sleep before")
	}
	close(release)
	w.stop()
}
