package outbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func (f *fakeRail) prune(ctx context.Context, _ Retention, _ int) (int, error) {
	return 0, f.do(ctx, "prune", func() {})
}

// pruneScript answers one call after the other, each after a second, and remembers when it was called.
type pruneScript struct {
	answers []int // -2 is a failure
	calls   []time.Duration
	begun   time.Time
}

func (s *pruneScript) prune(_ context.Context, keep Retention, atMost int) (int, error) {
	s.calls = append(s.calls, time.Since(s.begun))
	elapse(time.Second)
	if len(s.answers) == 0 || keep.Processed != time.Hour {
		return 0, nil
	}
	n := s.answers[0]
	s.answers = s.answers[1:]
	if n == -2 {
		return 0, errors.New("out of order")
	}
	return min(n, atMost), nil
}

// Full batches follow one another with as much of a pause as each took; otherwise, and while another worker is at it or
// the database fails, a minute passes.
func TestPrunerPaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &pruneScript{answers: []int{2000, 1000, 999, -1, -2, 1000, 0}, begun: time.Now()}
		log := &journal{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			(&pruner{rail: s, keep: Retention{Processed: time.Hour}, log: newLogger(log)}).run(ctx)
		}()
		elapse(10 * time.Minute)
		cancel()
		<-done
		for i, want := range []time.Duration{0, 2 * time.Second, 2 * time.Second, time.Minute, time.Minute, time.Minute, 2 * time.Second, time.Minute} {
			if i == 0 {
				if s.calls[0] > 2*time.Second {
					t.Errorf("the first look is after %v", s.calls[0])
				}
				continue
			}
			if got := s.calls[i] - s.calls[i-1]; got < want*3/4 || got > want*5/4+time.Second {
				t.Errorf("look %d is %v after the one before, want about %v", i, got, want)
			}
		}
		if n := strings.Count(log.String(), "old events cannot be deleted"); n < 1 {
			t.Errorf("the failure is not logged:\n%s", log)
		}
	})
}

// A worker prunes if and only if it was told for how long to keep, and stops with the rest of it.
func TestPrunesOnlyWhenAsked(t *testing.T) {
	for name, c := range map[string]struct {
		keep Retention
		want bool
	}{"nothing said": {Retention{}, false}, "an hour": {Retention{Processed: time.Hour}, true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rail, cfg := newFakeRail(), testConfig("a")
				cfg.Retain = c.keep
				b := launch(t, rail, cfg, processed)
				elapse(5 * time.Minute)
				synctest.Wait()
				if got := rail.called("prune"); (got > 0) != c.want || got > 7 {
					t.Errorf("pruned %d times in five minutes", got)
				}
				b.stop()
			})
		})
	}
}
