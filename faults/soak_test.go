package faults

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/openlup/pgrail/internal/pgtest/server"
	"github.com/openlup/pgrail/outbox/event"
)

const (
	soakWorkers    = 4
	soakAggregates = 500
	soakPortion    = 250
)

// TestSoak delivers events while workers are killed at random and the server is stopped in its ways in turn.
func TestSoak(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	workers := make([]*process, soakWorkers)
	for i := range workers {
		workers[i] = r.spawn(never, 8)
	}
	// Each fault has its moment in the progress of the deliveries, so that there is work whenever one comes.
	faults := *kills + *restarts
	written, killed, restarted := 0, 0, 0
	begun := time.Now()
	var v verdict
	defer func() { // also of one that fails
		if v.Events == 0 {
			v = r.verdict()
		}
		t.Logf("soak, %v:\n%s", time.Since(begun).Round(time.Second), v.table(killed, restarted))
	}()
	for fault := range faults {
		if time.Since(begun) > *limit {
			t.Fatalf("%d of %d faults in %v; that is longer than -limit", fault, faults, *limit)
		}
		if tenth := faults / 10; tenth > 0 && fault%tenth == 0 {
			t.Logf("%v: %d of %d faults", time.Since(begun).Round(time.Second), fault, faults)
		}
		target := (fault + 1) * *events / (faults + 1)
		written = r.write(written, target+soakPortion)
		r.until(`(select max(id) from public.deliveries) >= $1::integer`, target) // cheaper than to count them
		if restarted < *restarts && (fault+1)**restarts/faults > restarted {
			r.bounce([]server.StopMode{server.Fast, server.Immediate}[restarted%2])
			restarted++
			continue
		}
		victim := rand.IntN(len(workers))
		workers[victim].murder()
		workers[victim] = r.spawn(never, 8)
		killed++
	}
	r.write(written, *events)
	r.until(allProcessed)
	for _, worker := range workers {
		worker.stop()
	}
	v = r.verdict()
	v.expectClean(t, *events)
	if killed != *kills || restarted != *restarts {
		t.Errorf("%d kills and %d restarts, want %d and %d", killed, restarted, *kills, *restarts)
	}
}

// write enqueues up to the given number of events, and returns how many there are. Aggregates take turns.
func (r *rig) write(from, to int) int {
	r.Helper()
	to = min(to, *events)
	for from < to {
		var drafts []event.Draft
		for ; from < to && len(drafts) < soakPortion; from++ {
			drafts = append(drafts, draft(from%soakAggregates, load{Seq: from/soakAggregates + 1}))
		}
		r.enqueue(drafts...)
	}
	return max(from, to)
}

// bounce stops the server and starts it again.
func (r *rig) bounce(mode server.StopMode) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r.must(r.server.Stop(ctx, mode))
	r.must(r.server.Start(ctx))
	r.pool.Reset()
	r.until(`true`)
}
