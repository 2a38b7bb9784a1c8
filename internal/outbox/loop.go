package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Bounds of the last stages of stopping.
const (
	// grace is what cancelled handlers get to return.
	grace = time.Second
	// lastWords bounds storing the last outcomes.
	lastWords = 5 * time.Second
)

// StopError lists what a stopped loop left behind.
type StopError struct {
	// Running are events whose handlers have not returned; Unsettled those whose outcome could not be stored.
	Running, Unsettled []uuid.UUID
}

func (e *StopError) Error() string {
	return fmt.Sprintf("outbox: stopped with %d handlers still running and %d outcomes not stored; the events come back when their leases end",
		len(e.Running), len(e.Unsettled))
}

// Loop claims events, runs their handlers and settles them. It runs once.
type Loop struct {
	cfg      Config
	handle   Handle
	gate     *gate
	flights  *flights
	breakers *breakers
	settler  *settler
	handlers sync.WaitGroup
	base     context.Context
	// stop ends claiming, rush ends waiting for handlers.
	stop, rush chan struct{}
	stopOnce   sync.Once
	rushOnce   sync.Once
	done       chan struct{}
}

// New returns a loop for a checked configuration.
func New(cfg Config, handle Handle) *Loop {
	return &Loop{
		cfg: cfg, handle: handle,
		gate: newGate(cfg.Concurrency), flights: newFlights(), breakers: newBreakers(cfg.Pause),
		stop: make(chan struct{}), rush: make(chan struct{}), done: make(chan struct{}),
	}
}

// Run works until ctx ends or Stop is called, then stops in stages: no more claims; running handlers finish;
// at the deadline their contexts are cancelled; outcomes are stored. It returns nil, a [*StopError], or
// the database error that made going on useless. The pool's configuration is used, the pool itself is not.
func (l *Loop) Run(ctx context.Context, config *pgxpool.Config) error {
	defer close(l.done)
	listening := config.ConnConfig.Copy()
	store, err := openStore(ctx, config, l.cfg.Policy)
	if err != nil {
		return err
	}
	defer store.pool.Close()
	landed := make(chan struct{}, 1)
	l.base = context.WithoutCancel(ctx)
	l.settler = &settler{
		store: store, flights: l.flights, log: l.cfg.Logger, settled: l.cfg.Settled,
		in: make(chan verdict, l.cfg.Concurrency), quit: make(chan struct{}),
		landed: func() { nudge(landed) },
	}
	ears := &listener{config: listening, store: store, log: l.cfg.Logger, types: l.cfg.Types, woken: make(chan struct{}, 1)}
	presence := &presence{store: store, flights: l.flights, types: l.cfg.Types, log: l.cfg.Logger}
	claimer := &claimer{
		cfg: l.cfg, store: store, gate: l.gate, flights: l.flights, breakers: l.breakers, log: l.cfg.Logger,
		start: l.start, giveBack: l.giveBack, woken: ears.woken, landed: landed, hears: ears.hears.Load, suspects: &presence.suspects,
	}
	services, endServices := context.WithCancel(l.base)
	defer endServices()
	var running sync.WaitGroup
	running.Go(func() { ears.run(services) })
	running.Go(func() { (&keeper{store, l.flights, l.cfg.Lease, l.cfg.Logger}).run(services) })
	running.Go(func() { presence.run(services) })
	running.Go(func() { (&healer{store, l.cfg.Logger}).run(services) })
	settling, endSettling := context.WithCancel(l.base)
	defer endSettling()
	settled := make(chan struct{})
	go func() { defer close(settled); l.settler.run(settling) }()

	claiming, endClaiming := context.WithCancel(ctx)
	context.AfterFunc(claiming, func() { l.stopOnce.Do(func() { close(l.stop) }) })
	go func() { <-l.stop; endClaiming() }()
	failure := claimer.run(claiming)
	endClaiming()

	left := l.drain(settled, endSettling)
	endServices()
	running.Wait()
	if failure != nil {
		return fmt.Errorf("outbox: the worker cannot go on: %w", failure)
	}
	if left != nil {
		return left
	}
	return nil
}

// drain waits for the handlers, then cancels them, then stores what there is to store.
func (l *Loop) drain(settled <-chan struct{}, endSettling context.CancelFunc) *StopError {
	idle := make(chan struct{})
	go func() { l.handlers.Wait(); close(idle) }()
	if !within(l.cfg.StopTimeout, idle, l.rush) {
		l.flights.cancel(ErrStopping, func(*flight) bool { return true })
		within(grace, idle, nil)
	}
	left := &StopError{Running: l.flights.running()}
	close(l.settler.quit)
	if !within(lastWords, settled, nil) {
		endSettling()
		<-settled
	}
	left.Unsettled = l.flights.except(left.Running)
	if len(left.Running)+len(left.Unsettled) == 0 {
		return nil
	}
	return left
}

// within waits for done, at most for the given time and not beyond rush.
func within(limit time.Duration, done <-chan struct{}, rush <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-rush:
	}
	return false
}

// Stop makes Run stop and waits for it. When ctx ends first, running handlers are cancelled at once.
func (l *Loop) Stop(ctx context.Context) {
	l.stopOnce.Do(func() { close(l.stop) })
	select {
	case <-l.done:
		return
	case <-ctx.Done():
	}
	l.rushOnce.Do(func() { close(l.rush) })
	<-l.done
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
