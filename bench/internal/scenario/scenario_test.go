package scenario

import (
	"testing"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/bench/internal/rail"
)

func TestOrderCheck(t *testing.T) {
	a, b := rail.OneEach(1), rail.OneEach(2)
	aggregates := []uuid.UUID{a, b, a, b}
	for name, tt := range map[string]struct {
		handled    []int
		violations int
	}{
		"in order":                           {[]int{0, 1, 2, 3}, 0},
		"aggregates may overtake each other": {[]int{1, 3, 0, 2}, 0},
		"a repeat is no violation":           {[]int{0, 0, 2, 2}, 0},
		"younger first":                      {[]int{2, 0}, 1},
	} {
		check := newOrderCheck(aggregates)
		for _, n := range tt.handled {
			check.handled(n)
		}
		if check.violations != tt.violations || (check.err() != nil) != (tt.violations > 0) {
			t.Errorf("%s: %d violations, want %d", name, check.violations, tt.violations)
		}
	}
}
