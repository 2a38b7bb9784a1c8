package outbox

import (
	"encoding/json"
	"math"
	"testing"
)

func TestSnoozesAreReadFromMetadata(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "7": 7, "-3": 0, `"7"`: 0, "null": 0, "[1]": 0, "1e300": math.MaxInt32, "2.5": 2} {
		if got := snoozes(json.RawMessage(text)); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}
