package outbox

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// downstream is out for a while, for one event type.
type downstream struct {
	mu      sync.Mutex
	until   time.Time
	took    time.Duration // how long a call takes
	calls   []time.Duration
	begun   time.Time
	running int
	most    map[int]int // most at once, per second since it came back
}

func (d *downstream) handle(_ context.Context, e Claimed) Result {
	d.mu.Lock()
	d.calls = append(d.calls, time.Since(d.begun))
	d.running++
	if back := time.Since(d.until); back > 0 {
		second := int(back / time.Second)
		d.most[second] = max(d.most[second], d.running)
	}
	d.mu.Unlock()
	elapse(d.took)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	if time.Now().Before(d.until) {
		return Result{Outcome: Snooze, Unavailable: true, Delay: -1, Error: "connection refused"}
	}
	return Result{Outcome: Processed}
}

// Case P6: the downstream of type a is out for three hours. Its events are snoozed and not spent, hardly anything is tried,
// type b flows, the order holds, and they come back slowly and not in one wave.
func TestP6_ThreeHoursOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		const aggregates, each = 300, 2
		for n := range aggregates * each {
			rail.add("a", n%aggregates)
		}
		down := &downstream{begun: time.Now(), until: time.Now().Add(3 * time.Hour), took: 100 * time.Millisecond, most: map[int]int{}}
		var mu sync.Mutex
		var lagged int
		seen := map[[16]byte][]int{}
		cfg := testConfig("a", "b")
		cfg.Concurrency = 200
		b := launch(t, rail, cfg, func(ctx context.Context, e Claimed) Result {
			if e.EventType == "b" {
				return Result{Outcome: Processed}
			}
			result := down.handle(ctx, e)
			if result.Outcome == Processed {
				mu.Lock()
				defer mu.Unlock()
				seen[e.AggregateID] = append(seen[e.AggregateID], slices.IndexFunc(rail.rows, func(row *fakeRow) bool { return row.ID == e.ID }))
			}
			return result
		})
		for minute := range 170 {
			rail.add("b", 10_000+minute)
			elapse(time.Minute)
			if rail.count("processed") != minute+1 {
				lagged++
			}
		}
		if lagged != 0 {
			t.Errorf("type b lagged in %d of 170 minutes", lagged)
		}
		down.mu.Lock()
		if n := len(down.calls); n < 200 || n > 200+60 {
			t.Errorf("%d calls to a downstream that is out, want the first 200 and then about one in five minutes", n)
		}
		down.mu.Unlock()
		for rail.count("processed") < 170+aggregates*each && time.Since(down.begun) < 4*time.Hour {
			elapse(time.Second)
		}
		if n := rail.count("processed"); n != 170+aggregates*each {
			t.Errorf("%d of %d processed an hour after it came back", n, 170+aggregates*each)
		}
		for _, row := range rail.rows {
			if row.attempts != 1 || row.Snoozes > 60 {
				t.Fatalf("%d attempts and %d snoozes of an event that failed only with its downstream", row.attempts, row.Snoozes)
			}
		}
		for aggregate, order := range seen {
			if !slices.IsSorted(order) {
				t.Fatalf("aggregate %v came in the order %v", aggregate, order)
			}
		}
		first := slices.Min(keysOf(down.most))
		for second, n := range down.most {
			if bound := 2 << min(second-first, 20); n > bound {
				t.Errorf("%d at once in second %d of its return, want no more than %d", n, second-first, bound)
			}
		}
		b.stop()
	})
}

func keysOf(m map[int]int) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// The type may turn out to be out again between the claim of a trial and its start: the trial goes back, with its attempt,
// and is counted back.
func TestP6_TrialOvertakenByAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		b := launch(t, rail, testConfig("a"), func(context.Context, Claimed) Result {
			t.Error("started while its type rests")
			return Result{Outcome: Processed}
		})
		synctest.Wait()
		loop := b.loop
		loop.breakers.fails("a")
		row := rail.add("a", 1)
		events, err := rail.claim(t.Context(), ask{types: []string{"a"}, limit: 1}, nil, time.Hour)
		if err != nil || len(events) != 1 || loop.gate.take(t.Context(), 1) != 1 {
			t.Fatal(events, err)
		}
		events[0].Trial = true
		loop.breakers.tries(events[0])
		loop.start(events[0], time.Now().Add(time.Hour))
		synctest.Wait()
		if n := len(loop.breakers.types["a"].trials); n != 0 || row.status != "pending" || row.attempts != 0 || time.Until(row.due) < 3*time.Second {
			t.Errorf("%d trials are counted, the event is %s with %d attempts, due in %v", n, row.status, row.attempts, time.Until(row.due))
		}
		b.stop()
	})
}
