package outbox

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Limits of a breaker.
const (
	maxPause = 5 * time.Minute
	// fullQuota is how many events in a row of one type close its breaker.
	fullQuota = 128
)

// breakers pause the types whose downstream is out, and bring each back slowly: one event first, then twice as
// many, until it takes part in the ordinary claim again. An excluded type still holds up the younger
// events of its aggregates, because the claim treats a type it does not know as a barrier.
type breakers struct {
	pause time.Duration
	mu    sync.Mutex
	types map[string]*breaker
}

type breaker struct {
	until  time.Time
	pause  time.Duration
	quota  int
	flying int
}

// ask is one claim to make: these types, at most that many events.
type ask struct {
	types []string
	limit int
	// probe marks a claim that tests a resting type; suspects asks for events that must run alone.
	probe, suspects bool
}

func newBreakers(pause time.Duration) *breakers {
	return &breakers{pause: pause, types: map[string]*breaker{}}
}

// asks plans the next claims for up to limit events: probes of resting types whose pause is over, then all healthy
// types together.
func (b *breakers) asks(types []string, limit int, now time.Time) []ask {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.types) == 0 {
		return []ask{{types: types, limit: limit}}
	}
	var asks []ask
	var healthy []string
	for _, t := range types {
		one, resting := b.types[t]
		switch {
		case !resting:
			healthy = append(healthy, t)
		case now.After(one.until) && one.flying < one.quota && limit > 0:
			n := min(one.quota-one.flying, limit)
			limit -= n
			asks = append(asks, ask{types: []string{t}, limit: n, probe: true})
		}
	}
	if len(healthy) > 0 && limit > 0 {
		asks = append(asks, ask{types: healthy, limit: limit})
	}
	return asks
}

// took notes how many probes of a type are under way.
func (b *breakers) took(eventType string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one, ok := b.types[eventType]; ok {
		one.flying += n
	}
}

// resting reports for how much longer a type should not be handled; zero means not at all.
func (b *breakers) resting(eventType string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one, ok := b.types[eventType]; ok {
		return max(time.Until(one.until), 0)
	}
	return 0
}

// report tells what became of an event and returns, when its downstream is out, how long to put the event off.
func (b *breakers) report(eventType string, unavailable bool) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, resting := b.types[eventType]
	if resting {
		one.flying = max(one.flying-1, 0)
	}
	switch {
	case unavailable:
		return b.open(eventType)
	case resting && time.Now().After(one.until):
		one.quota *= 2
		if one.quota >= fullQuota {
			delete(b.types, eventType)
		}
	}
	return 0
}

// open starts a pause, or lengthens the next one when a probe has failed. Events that fail while it rests change nothing.
func (b *breakers) open(eventType string) time.Duration {
	one, known := b.types[eventType]
	if !known {
		one = &breaker{pause: b.pause}
		b.types[eventType] = one
	}
	if time.Now().After(one.until) {
		one.until = time.Now().Add(jitter(one.pause))
		one.pause = min(2*one.pause, maxPause)
		one.quota = 1
	}
	return time.Until(one.until) + jitter(b.pause)
}

// jitter spreads a duration over 75 to 125 percent of itself.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
