package outbox

import (
	"math"
	"testing"
	"time"
)

func TestSecondsRoundUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int32{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90, math.MaxInt64: math.MaxInt32, -1: -1, -time.Hour: -1} {
		if got := delaySeconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}
