package outbox

import (
	"math"
	"testing"
	"time"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestSecondsRoundUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int32{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90, math.MaxInt64: math.MaxInt32, -1: -1, -time.Hour: -1} {
		if got := delaySeconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}

// What a worker claims before it appears can be taken over too: appearing, it says that there may be such.
func TestAppearTellsOfClaims(t *testing.T) {
	t.Parallel()
	for want, claims := range map[string]bool{"-infinity": false, "infinity": true} {
		pool := pgtest.New(t).Pool
		s := newStore(pool, Policy{})
		if claims {
			if _, err := s.claim(t.Context(), ask{types: []string{"a"}, limit: 1}, nil, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.appear(t.Context(), pool, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := pool.QueryRow(t.Context(), `select claimed_until::text from public.outbox_workers`).Scan(&got); err != nil || got != want {
			t.Errorf("claimed before: %t: %s, %v, want %s", claims, got, err, want)
		}
	}
}
