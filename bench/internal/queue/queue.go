// Package queue puts the contenders behind one interface: the rail as applications
// use it, the rail's bare SQL functions, and River.
package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/openlup/pgrail/bench/internal/rail"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// A Queue is a contender with a database of its own.
type Queue interface {
	// Insert writes the events numbered from to from+n-1 in one call and one
	// transaction, the fastest way the contender has for that many.
	Insert(ctx context.Context, from, n int) error
	// Start runs handle for each event, by its number, until stop is called. When
	// the contender gives up before that, fail is told why.
	Start(ctx context.Context, handle func(n int), fail func(error)) (stop func() error, err error)
	// Unfinished counts the events that are not acknowledged.
	Unfinished(ctx context.Context) (int, error)
	// Database is where it all happens.
	Database() *testbed.Database
	// Disconnect closes the idle connections of the pool, so that their sessions end.
	Disconnect()
	// Close drops the database.
	Close()
}

// Options of what a contender is opened with.
type Options struct {
	// Conns is the size of the pool that the application gives it; 0 means 10.
	Conns int
	// Keys are the events' aggregates; nil means one each. River has none.
	Keys rail.Keys
	// Meter counts what the contender sends; nil counts nothing.
	Meter *testbed.Meter
}

func (o Options) withDefaults() Options {
	if o.Conns == 0 {
		o.Conns = 10
	}
	if o.Keys == nil {
		o.Keys = rail.OneEach
	}
	return o
}

// payload is what each event carries: that of an e-mail or an order.
type payload struct {
	To       string `json:"to"`
	Template string `json:"template"`
	N        int    `json:"n"`
}

func newPayload(n int) payload { return payload{"someone@example.org", "welcome", n} }

// Fill inserts n events, size at a time, and lets the database come to rest.
func Fill(ctx context.Context, q Queue, n, size int) error {
	for from := 0; from < n; from += size {
		if err := q.Insert(ctx, from, min(size, n-from)); err != nil {
			return err
		}
	}
	return q.Database().Rest(ctx)
}

// poll is how often what is left is counted, once all handlers have run.
const poll = 5 * time.Millisecond

// An Effort is what working off a number of events took.
type Effort struct {
	Events  int
	Elapsed time.Duration
	CPU     testbed.CPU
}

// PerSecond is how many events were worked off in a second.
func (e Effort) PerSecond() float64 { return float64(e.Events) / e.Elapsed.Seconds() }

// Measure runs work that does n events and that is to leave its sessions open.
func Measure(ctx context.Context, db *testbed.Database, n int, work func() error) (Effort, error) {
	e := Effort{Events: n}
	clock, err := db.StartCPU(ctx)
	if err != nil {
		return e, err
	}
	start := time.Now()
	if err := work(); err != nil {
		return e, err
	}
	e.Elapsed = time.Since(start)
	e.CPU, err = clock.Read(ctx)
	return e, err
}

// Drain works off the n events that are there, from the start until the last one is
// acknowledged. What is left is counted only after the last handler has run, so that
// counting costs nobody anything.
func Drain(ctx context.Context, q Queue, n int, handle func(n int)) (Effort, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var handled atomic.Int64
	all := make(chan struct{})
	stop := func() error { return nil }
	effort, err := Measure(ctx, q.Database(), n, func() (err error) {
		stop, err = q.Start(ctx, func(number int) {
			handle(number)
			if handled.Add(1) == int64(n) {
				close(all)
			}
		}, fail)
		if err != nil {
			return err
		}
		return waitFor(ctx, all, q)
	})
	// One that has given up says why a second time.
	if stopErr := stop(); err == nil {
		err = stopErr
	}
	return effort, err
}

func waitFor(ctx context.Context, all <-chan struct{}, q Queue) error {
	select {
	case <-all:
		return Acknowledged(ctx, q)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Acknowledged waits until nothing is unfinished.
func Acknowledged(ctx context.Context, q Queue) error {
	for {
		left, err := q.Unfinished(ctx)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
