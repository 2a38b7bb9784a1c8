package outbox

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// breakers pause the types whose downstream is out, and bring each back slowly: one event is tried first, then, in steps
// of a fifth of the first pause at least, twice as many, until the type takes part in the ordinary claim again. An excluded
// type still holds up the younger events of its aggregates, because the claim treats a type it does not know as a barrier.
//
// It takes two events in a row to tell that a downstream is out: a single one may be at fault itself, however often it
// fails.
type breakers struct {
	pause time.Duration
	log   *slog.Logger
	mu    sync.Mutex
	types map[string]*breaker
	// watched counts the types, so that an event of a healthy rail need not queue for the lock.
	watched atomic.Int32
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
		one, watched := b.types[t]
		if !watched || !one.ill() {
			healthy = append(healthy, t)
		} else if n := min(one.room(), limit); n > 0 {
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
func (b *breakers) tries(event Claimed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one, watched := b.types[event.EventType]; watched {
		one.trials[event.ID] = time.Now()
	}
}

// rest reports for how much longer a type should not be handled; zero means not at all.
func (b *breakers) rest(eventType string) time.Duration {
	if b.watched.Load() == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if one, watched := b.types[eventType]; watched {
		return max(time.Until(one.until), 0)
	}
	return 0
}

// ended tells what became of an event and returns, when its downstream is out, how long to put the event off. Once a type
// is ill only trials tell anything new of it: the others were claimed before.
func (b *breakers) ended(event Claimed, tells health) time.Duration {
	if tells != out && b.watched.Load() == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one, watched := b.types[event.EventType]
	switch {
	case !watched && tells != out:
		return 0
	case !watched:
		one = &breaker{pause: b.pause, trials: map[uuid.UUID]time.Time{}}
		b.types[event.EventType] = one
		b.watched.Add(1)
	}
	delete(one.trials, event.ID)
	if !one.ill() || event.Trial && !one.resting() {
		b.learn(event, one, tells)
	}
	if tells != out {
		return 0
	}
	return max(max(time.Until(one.until), 0)+jitter(b.pause), jitter(doubled(b.pause, event.Snoozes)))
}

// learn draws the conclusions from an event that tells something new.
func (b *breakers) learn(event Claimed, one *breaker, tells health) {
	switch {
	case tells == well && !one.ill():
		b.forget(event.EventType)
	case tells == well:
		one.last = uuid.Nil
		if one.trust(b.pause / 5) {
			b.forget(event.EventType)
			b.log.Info("outbox: downstream is back, its event type is at full speed again", "event_type", event.EventType)
		}
	case tells == out:
		if one.last != uuid.Nil && one.last != event.ID {
			b.log.Warn("outbox: downstream is out, its event type pauses", "event_type", event.EventType, "for", one.open())
		}
		one.last = event.ID
	}
}

func (b *breakers) forget(eventType string) {
	delete(b.types, eventType)
	b.watched.Add(-1)
}
