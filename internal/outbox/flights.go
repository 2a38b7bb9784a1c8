package outbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// flight is an event between its claim and the moment the database knows its outcome.
type flight struct {
	event  Claimed
	cancel context.CancelCauseFunc
	// leaseEnds by the local monotonic clock, counted from before the claim was sent: never too late.
	leaseEnds time.Time
	// returned is set once the handler has ended; only the outcome is still to be stored.
	returned bool
	// cancelled is set once the handler has been told to end.
	cancelled bool
}

// flights is the set of everything this worker holds.
type flights struct {
	mu  sync.Mutex
	all map[uuid.UUID]*flight
}

func newFlights() *flights { return &flights{all: map[uuid.UUID]*flight{}} }

// add takes a flight in. An older one of the same event has lost its lease without knowing it yet: it is told, as nobody
// else could once it is forgotten here.
func (f *flights) add(one *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if older, ok := f.all[one.event.ID]; ok && !older.returned {
		older.cancel(ErrLeaseLost)
	}
	f.all[one.event.ID] = one
}

// landed removes a flight, unless the same event has been claimed anew meanwhile.
func (f *flights) landed(event Claimed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one, ok := f.all[event.ID]; ok && one.event.Token == event.Token {
		delete(f.all, event.ID)
	}
}

func (f *flights) returned(event Claimed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one, ok := f.all[event.ID]; ok && one.event.Token == event.Token {
		one.returned = true
	}
}

// due returns the events whose lease ends before then.
func (f *flights) due(then time.Time) []Claimed {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due []Claimed
	for _, one := range f.all {
		if one.leaseEnds.Before(then) {
			due = append(due, one.event)
		}
	}
	return due
}

// extended notes the leases of the given tokens as ending at until.
func (f *flights) extended(tokens map[string]bool, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.all {
		if tokens[one.event.Token] {
			one.leaseEnds = until
		}
	}
}

// cancel ends the handlers of the events for which which says so, once each, and counts them.
func (f *flights) cancel(cause error, which func(*flight) bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, one := range f.all {
		if !one.returned && !one.cancelled && which(one) {
			one.cancel(cause)
			one.cancelled = true
			n++
		}
	}
	return n
}

// ids lists everything held, as text for the wire.
func (f *flights) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]string, 0, len(f.all))
	for id := range f.all {
		ids = append(ids, id.String())
	}
	return ids
}

// running lists the events whose handler has not returned.
func (f *flights) running() []uuid.UUID {
	return f.list(func(one *flight) bool { return !one.returned })
}

// except lists what is held besides the given events.
func (f *flights) except(known []uuid.UUID) []uuid.UUID {
	return f.list(func(one *flight) bool { return !slices.Contains(known, one.event.ID) })
}

func (f *flights) list(which func(*flight) bool) []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []uuid.UUID
	for id, one := range f.all {
		if which(one) {
			ids = append(ids, id)
		}
	}
	return ids
}
