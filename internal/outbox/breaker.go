package outbox

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Limits of a breaker.
const (
	maxPause = 5 * time.Minute
	// fullQuota is how many events of one type are under trial at once when its breaker closes.
	fullQuota = 128
)

// breakers pause the types whose downstream is out, and bring each back slowly: one event is tried first, then, in steps
// of a fifth of the first pause at least, twice as many, until the type takes part in the ordinary claim again. An excluded
// type still holds up the younger events of its aggregates, because the claim treats a type it does not know as a barrier.
type breakers struct {
	pause time.Duration
	log   *slog.Logger
	mu    sync.Mutex
	types map[string]*breaker
	// ill counts the types, so that an event of a healthy rail need not queue for the lock.
	ill atomic.Int32
}

type breaker struct {
	// until this moment the type rests; from then on it is on trial.
	until time.Time
	// pause is how long it rests the next time.
	pause time.Duration
	// quota is how many events may be on trial at once, trials how many are, and passed how many did well at this quota.
	quota, trials, passed int
	// grow is when the quota may grow next.
	grow time.Time
}

// ask is one claim to make: these types, at most that many events.
type ask struct {
	types []string
	limit int
	// trial marks a claim that tests a resting type; suspects asks for events that must run alone.
	trial, suspects bool
	// since, where set, passes over events created before that one.
	since *uuid.UUID
}

// health is what the end of an event tells of its downstream.
type health int

const (
	unknown health = iota
	well
	out
)

func newBreakers(pause time.Duration, log *slog.Logger) *breakers {
	return &breakers{pause: pause, log: log, types: map[string]*breaker{}}
}

// asks plans the next claims for up to limit events: trials of the types whose pause is over, then all healthy types
// together.
func (b *breakers) asks(types []string, limit int) []ask {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.types) == 0 {
		return []ask{{types: types, limit: limit}}
	}
	var asks []ask
	var healthy []string
	for _, t := range types {
		one, ill := b.types[t]
		switch {
		case !ill:
			healthy = append(healthy, t)
		case !one.resting() && one.trials < one.quota && limit > 0:
			n := min(one.quota-one.trials, limit)
			limit -= n
			asks = append(asks, ask{types: []string{t}, limit: n, trial: true})
		}
	}
	if len(healthy) > 0 && limit > 0 {
		asks = append(asks, ask{types: healthy, limit: limit})
	}
	return asks
}

// tries notes that an event has been claimed on trial. Each is to be ended.
func (b *breakers) tries(eventType string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one, ill := b.types[eventType]; ill {
		one.trials++
	}
}

// rest reports for how much longer a type should not be handled; zero means not at all.
func (b *breakers) rest(eventType string) time.Duration {
	if b.ill.Load() == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if one, ill := b.types[eventType]; ill {
		return max(time.Until(one.until), 0)
	}
	return 0
}

// ended tells what became of an event and returns, when its downstream is out, how long to put the event off. Once a type
// is ill only trials tell anything new of it: the others were claimed before.
func (b *breakers) ended(event Claimed, tells health) time.Duration {
	if tells != out && b.ill.Load() == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one, ill := b.types[event.EventType]
	if ill && event.Trial {
		one.trials = max(one.trials-1, 0)
	}
	switch {
	case tells == out && !ill:
		one = &breaker{pause: b.pause}
		b.types[event.EventType] = one
		b.ill.Add(1)
		b.open(event.EventType, one)
	case tells == out && event.Trial && !one.resting():
		b.open(event.EventType, one)
	case tells == well && ill && event.Trial && !one.resting():
		b.trust(event.EventType, one)
	}
	if tells != out {
		return 0
	}
	return max(time.Until(one.until), 0) + jitter(b.pause)
}

// open begins a pause and doubles the next one.
func (b *breakers) open(eventType string, one *breaker) {
	rest := jitter(one.pause)
	one.until = time.Now().Add(rest)
	one.pause = min(2*one.pause, maxPause)
	one.quota, one.passed = 1, 0
	b.log.Warn("outbox: downstream is out, its event type pauses", "event_type", eventType, "for", rest)
}

// trust makes room for twice as many trials when as many as there is room for did well, and closes the breaker at last.
func (b *breakers) trust(eventType string, one *breaker) {
	one.passed++
	if one.passed < one.quota || time.Now().Before(one.grow) {
		return
	}
	one.quota, one.passed, one.grow = 2*one.quota, 0, time.Now().Add(b.pause/5)
	if one.quota < fullQuota {
		return
	}
	delete(b.types, eventType)
	b.ill.Add(-1)
	b.log.Info("outbox: downstream is back, its event type is at full speed again", "event_type", eventType)
}

func (one *breaker) resting() bool { return time.Now().Before(one.until) }

// jitter spreads a duration over 75 to 125 percent of itself.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
