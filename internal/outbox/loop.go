package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Bounds of the stages of stopping, besides the configured one.
const (
	// lastCall is what a claim under way gets to come back, and a connection to close.
	lastCall = time.Second
	// grace is what cancelled handlers get to return.
	grace = time.Second
	// lastWords bounds storing the last outcomes.
	lastWords = 5 * time.Second
	// seenPatience bounds how long the first claim waits for the worker to appear.
	seenPatience = 5 * time.Second
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
	crew     *crew
	handlers sync.WaitGroup
	base     context.Context
	// stopping ends claiming, rushing ends waiting for handlers.
	stopping, rushing context.Context
	stop, rush        context.CancelFunc
	done              chan struct{}
	// seen, if set, ends once the worker's death would be noticed, or is known to go unnoticed.
	seen     <-chan struct{}
	failOnce sync.Once
	failure  error
}

// New returns a loop for a checked configuration.
func New(cfg Config, handle Handle) *Loop {
	l := &Loop{
		cfg: cfg, handle: handle,
		gate: newGate(cfg.Concurrency), flights: newFlights(), breakers: newBreakers(cfg.Pause, cfg.Logger),
		crew: newCrew(),
		done: make(chan struct{}),
	}
	l.stopping, l.stop = context.WithCancel(context.Background())
	l.rushing, l.rush = context.WithCancel(context.Background())
	return l
}

// Run works until ctx ends or Stop is called, then stops in stages: no more claims; running handlers finish;
// at the deadline their contexts are cancelled; outcomes are stored. It returns what was left behind, if anything, and
// the database error that made going on useless. The pool's configuration is used, the pool itself is not.
func (l *Loop) Run(ctx context.Context, config *pgxpool.Config) (*StopError, error) {
	defer close(l.done)
	link := &link{}
	pool, err := openPool(ctx, config, link)
	if err != nil {
		return nil, err
	}
	defer closePool(pool)
	rail, bell := observe(newStore(pool, l.cfg.Policy), l.cfg.Observer), newAlarm()
	ears := newListener(link.ofOwn(pool), rail, l.cfg, bell)
	l.seen = ears.tried
	return l.work(ctx, rail, bell, ears.run)
}

// work is Run on an open rail. Listen rings the bell.
func (l *Loop) work(ctx context.Context, rail rail, bell *alarm, listen func(context.Context)) (*StopError, error) {
	defer l.crew.dismiss()
	landed := make(chan struct{}, 1)
	l.base = context.WithoutCancel(ctx)
	l.settler = &settler{
		rail: rail, flights: l.flights, log: l.cfg.Logger, digest: digest{l.cfg.Logger, map[tallyKey]*tally{}},
		in: make(chan verdict, l.cfg.Concurrency), quit: make(chan struct{}),
		landed: func() { nudge(landed) }, settled: l.cfg.Settled, fail: l.fail,
	}
	presence := &presence{rail: rail, flights: l.flights, types: l.cfg.Types, log: l.cfg.Logger}
	claimer := &claimer{
		cfg: l.cfg, rail: rail, gate: l.gate, flights: l.flights, breakers: l.breakers, log: l.cfg.Logger,
		start: l.start, giveBack: l.giveBack, alarm: bell, landed: landed, suspects: &presence.suspects,
	}
	services, endServices := context.WithCancel(l.base)
	defer endServices()
	var running sync.WaitGroup
	running.Go(func() { listen(services) })
	running.Go(func() { (&keeper{rail: rail, flights: l.flights, lease: l.cfg.Lease, log: l.cfg.Logger}).run(services) })
	running.Go(func() { presence.run(services) })
	running.Go(func() { (&healer{rail: rail, log: l.cfg.Logger}).run(services) })
	running.Go(func() { (&pruner{rail: rail, keep: l.cfg.Retain, log: l.cfg.Logger}).run(services) })

	claiming, endClaiming := context.WithCancel(ctx)
	defer endClaiming()
	context.AfterFunc(l.stopping, endClaiming)
	settling, endSettling := context.WithCancel(l.base)
	settled := make(chan struct{})
	go func() { defer close(settled); l.settler.run(settling) }()
	if l.seen != nil {
		// What a worker claims before it can be seen to die would wait for its lease.
		within(seenPatience, l.seen, claiming.Done())
	}
	if err := claimer.run(claiming); err != nil {
		l.fail(err)
	}

	left := l.drain(settled, endSettling)
	endServices()
	running.Wait()
	return left, l.failure
}

// fail stops the loop for an error that no repetition can cure; the first one counts.
func (l *Loop) fail(err error) {
	l.failOnce.Do(func() { l.failure = fmt.Errorf("outbox: the worker cannot go on: %w", err) })
	l.stop()
}

// drain waits for the handlers, then cancels them, then stores what there is to store.
func (l *Loop) drain(settled <-chan struct{}, endSettling context.CancelFunc) *StopError {
	defer endSettling()
	idle := make(chan struct{})
	go func() { l.handlers.Wait(); close(idle) }()
	if !within(l.cfg.StopTimeout, idle, l.rushing.Done()) {
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

// Stop makes Run stop and waits for it. When ctx ends first, running handlers are cancelled at once.
func (l *Loop) Stop(ctx context.Context) {
	l.stop()
	within(forever, l.done, ctx.Done())
	l.rush()
	<-l.done
}

// forever is longer than any worker lives.
const forever = 1<<63 - 1

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

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
