package outbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answers is a rail with fixed answers.
type answers struct {
	rail
	err error
}

func (a answers) claim(context.Context, ask, []string, time.Duration) ([]Claimed, error) {
	return make([]Claimed, 2), a.err
}

func (a answers) extend(context.Context, []Claimed, time.Duration) (map[string]bool, error) {
	return map[string]bool{"t": true}, a.err
}
func (a answers) takeOver(context.Context, time.Duration) (int32, error) { return 3, a.err }
func (a answers) heal(context.Context) (int32, error)                    { return 4, a.err }
func (a answers) prune(context.Context, Retention, int) (int, error)     { return 5, a.err }

// callAll makes each of the calls that are observed.
func callAll(ctx context.Context, r rail) {
	_, _ = r.claim(ctx, ask{}, nil, 0)
	_, _ = r.extend(ctx, nil, 0)
	_, _ = r.takeOver(ctx, 0)
	_, _ = r.heal(ctx)
	_, _ = r.prune(ctx, Retention{}, 0)
}

func TestObserved(t *testing.T) {
	got := map[string]int{}
	count := func(name string) func(int) { return func(n int) { got[name] += n } }
	o := Observer{
		Claimed:  func(events int, _ time.Duration) { got["claimed"] += events },
		Extended: count("extended"), TookOver: count("took over"), Healed: count("healed"), Pruned: count("pruned"),
	}
	callAll(t.Context(), observe(answers{}, o))
	want := map[string]int{"claimed": 2, "extended": 1, "took over": 3, "healed": 4, "pruned": 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	clear(got)
	callAll(t.Context(), observe(answers{err: errors.New("out")}, Observer{Claimed: o.Claimed}))
	if len(got) > 0 {
		t.Errorf("a claim that failed was told: %v", got)
	}
	// Without functions nothing is called.
	callAll(t.Context(), observe(answers{}, Observer{}))
}
