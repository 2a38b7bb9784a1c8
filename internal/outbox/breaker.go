package outbox

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// Limits of a breaker.
const (
	maxPause = 5 * time.Minute
	// trialPatience is for how long a trial keeps the next one from starting: its handler may hang for ever.
	trialPatience = maxPause
	// fullQuota is how many events of one type are under trial at once when its breaker closes.
	fullQuota = 128
)

// breaker is what is known of one type that is not at its best.
type breaker struct {
	// last is the event that found the downstream out, with none since that found it well.
	last uuid.UUID
	// until this moment the type rests; from then on it is on trial.
	until time.Time
	// pause is how long it rests the next time.
	pause time.Duration
	// quota is how many events may be on trial at once, 0 while the breaker is closed; passed how many did well at it.
	quota, passed int
	// trials are the events on trial, and since when.
	trials map[uuid.UUID]time.Time
	// grow is when the quota may grow next.
	grow time.Time
}

// open begins a pause, of which it returns the length, and doubles the next one.
func (one *breaker) open() time.Duration {
	rest := jitter(one.pause)
	one.until = time.Now().Add(rest)
	one.pause = doubled(one.pause, 1)
	one.quota, one.passed = 1, 0
	return rest
}

// trust makes room for twice as many trials when as many as there is room for did well, after step at the earliest, and reports
// whether there is need for trials no more.
func (one *breaker) trust(step time.Duration) bool {
	one.passed++
	if one.passed < one.quota || time.Now().Before(one.grow) {
		return false
	}
	one.quota, one.passed, one.grow = 2*one.quota, 0, time.Now().Add(step)
	return one.quota >= fullQuota
}

func (one *breaker) ill() bool { return one.quota > 0 }

func (one *breaker) resting() bool { return time.Now().Before(one.until) }

// room is how many more trials may begin.
func (one *breaker) room() int {
	if one.resting() {
		return 0
	}
	maps.DeleteFunc(one.trials, func(_ uuid.UUID, since time.Time) bool { return time.Since(since) >= trialPatience })
	return one.quota - len(one.trials)
}

// doubled doubles a pause so many times, up to the longest.
func doubled(pause time.Duration, times int) time.Duration {
	for ; times > 0 && pause < maxPause; times-- {
		pause *= 2
	}
	return min(pause, maxPause)
}

// jitter spreads a duration over 75 to 125 percent of itself.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
