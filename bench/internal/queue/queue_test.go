package queue_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openlup/pgrail/bench/internal/queue"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

func newBed(t *testing.T) *testbed.Bed {
	t.Helper()
	bed, err := testbed.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Close)
	return bed
}

func TestContendersHandleAndAcknowledgeEachEventOnce(t *testing.T) {
	const n = 250
	bed := newBed(t)
	rail, err := queue.Rail{}.Open(t.Context(), bed, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	river, err := queue.River{MaxWorkers: 100, FetchCooldown: time.Millisecond}.Open(t.Context(), bed, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]queue.Queue{"rail": rail, "River": river} {
		t.Run(name, func(t *testing.T) {
			defer q.Close()
			if err := queue.Fill(t.Context(), q, n-1, 100); err != nil {
				t.Fatal(err)
			}
			if err := q.Insert(t.Context(), n-1, 1); err != nil {
				t.Fatal(err)
			}
			if left, err := q.Unfinished(t.Context()); err != nil || left != n {
				t.Fatalf("%d unfinished before, want %d (%v)", left, n, err)
			}
			var mu sync.Mutex
			var handled []int
			effort, err := queue.Drain(t.Context(), q, n, func(i int) {
				mu.Lock()
				defer mu.Unlock()
				handled = append(handled, i)
			})
			if err != nil {
				t.Fatal(err)
			}
			if slices.Sort(handled); len(slices.Compact(handled)) != n || len(handled) != n {
				t.Errorf("%d events handled, want each of %d once", len(handled), n)
			}
			if left, err := q.Unfinished(t.Context()); err != nil || left != 0 {
				t.Errorf("%d unfinished after, want 0 (%v)", left, err)
			}
			if effort.Events != n || effort.Elapsed <= 0 {
				t.Errorf("effort %+v, want %d events and some time", effort, n)
			}
		})
	}
}

func TestDatabaseLevelContendersMoveAllRows(t *testing.T) {
	bed := newBed(t)
	for name, drain := range map[string]func() (queue.Effort, error){
		"functions": func() (queue.Effort, error) {
			return queue.Functions{Batch: 100, Conns: 2}.Drain(t.Context(), bed, 250)
		},
		"floor": func() (queue.Effort, error) { return queue.Floor{Batch: 100, Conns: 2}.Drain(t.Context(), bed, 250) },
	} {
		effort, err := drain()
		if err != nil || effort.Events != 250 {
			t.Errorf("%s: %+v, %v", name, effort, err)
		}
	}
}
