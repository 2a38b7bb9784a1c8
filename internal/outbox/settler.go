package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// verdict is a result on its way to the database.
type verdict struct {
	event  Claimed
	result Result
}

// Outcomes that the database has no word for.
const (
	// outcomeLost: the token no longer held the event.
	outcomeLost = "lost"
	// outcomeRefused: the database will not take the outcome of this very event.
	outcomeRefused = "refused"
)

// settler stores results in batches. While one batch is on its way the next one gathers, so that batches grow
// with the load and a lone result never waits.
type settler struct {
	rail    rail
	flights *flights
	log     *slog.Logger
	digest  digest
	failing streak
	in      chan verdict
	quit    chan struct{}
	// landed is called after each batch: an acknowledged event may have made way for the next one.
	landed  func()
	settled func(Claimed, string)
	// fail is called with an error that no repetition can cure.
	fail func(error)
}

// submit hands a result over. After the settler has quit results are dropped: their leases run out.
func (s *settler) submit(v verdict) {
	select {
	case s.in <- v:
	case <-s.quit:
	}
}

// run stores results until quit is closed and what had been submitted by then is stored. The context bounds
// all of it; it is never the one whose end stops the worker.
func (s *settler) run(ctx context.Context) {
	for {
		select {
		case first := <-s.in:
			s.flush(ctx, s.gather(first))
		case <-s.quit:
			for len(s.in) > 0 {
				s.flush(ctx, s.gather(<-s.in))
			}
			return
		}
	}
}

func (s *settler) gather(first verdict) []verdict {
	batch := []verdict{first}
	for len(batch) < maxBatch {
		select {
		case next := <-s.in:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

func (s *settler) flush(ctx context.Context, batch []verdict) {
	var done, failed []verdict
	released := map[time.Duration][]verdict{}
	for _, v := range batch {
		switch v.result.Outcome {
		case Processed:
			done = append(done, v)
		case Release:
			released[v.result.Delay] = append(released[v.result.Delay], v)
		case Settled, Lost:
			s.land(v, string(v.result.Outcome))
		default:
			failed = append(failed, v)
		}
	}
	s.store(ctx, done, s.rail.markProcessed)
	s.store(ctx, failed, s.rail.markFailed)
	for delay, some := range released {
		s.store(ctx, some, func(ctx context.Context, some []verdict) ([]string, error) {
			return nil, s.rail.release(ctx, some, delay)
		})
	}
	s.landed()
}

// store stores one kind of results. What the database refuses for good is tried event by event, so that one bad
// event does not cost the others their outcome.
func (s *settler) store(ctx context.Context, batch []verdict, do func(context.Context, []verdict) ([]string, error)) {
	if len(batch) == 0 {
		return
	}
	outcomes, err := s.stubbornly(ctx, batch, do)
	switch {
	case err == nil:
		for i, v := range batch {
			s.land(v, outcomeOf(outcomes, i, v))
		}
	case ctx.Err() != nil, classify(err) == fatal:
		s.log.Error("outbox: outcomes could not be stored; the events come back when their leases end", "events", len(batch), "error", loggable(err))
		if classify(err) == fatal {
			s.fail(err)
		}
	case locked(err) && len(batch) == 1:
		// Somebody else holds the row, an operator's open transaction for one: the others need not wait for that.
		time.AfterFunc(lockedPause, func() { s.submit(batch[0]) })
	case len(batch) > 1:
		for i := range batch {
			s.store(ctx, batch[i:i+1], do)
		}
	default:
		s.log.Error("outbox: the database refuses an event's outcome; it comes back when its lease ends", "event_id", batch[0].event.ID, "error", loggable(err))
		s.land(batch[0], outcomeRefused)
	}
}

// lockedPause is how long an outcome is put off whose event somebody else has locked.
const lockedPause = time.Second

func outcomeOf(outcomes []string, i int, v verdict) string {
	if i < len(outcomes) {
		return outcomes[i]
	}
	return string(v.result.Outcome)
}

func (s *settler) land(v verdict, outcome string) {
	s.flights.landed(v.event)
	s.digest.note(v, outcome)
	if s.settled != nil {
		s.settled(v.event, outcome)
	}
}

// stubbornly repeats a call until it succeeds or can never succeed; a second acknowledgement under the same token
// changes nothing.
func (s *settler) stubbornly(ctx context.Context, batch []verdict, do func(context.Context, []verdict) ([]string, error)) ([]string, error) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = 20*time.Millisecond, 5*time.Second
	return backoff.Retry(ctx, func() ([]string, error) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		outcomes, err := do(call, batch)
		s.failing.note(s.log, err, "outbox: outcomes cannot be stored")
		if err != nil && (classify(err) != passing || locked(err)) {
			err = backoff.Permanent(err)
		}
		return outcomes, err
	}, backoff.WithBackOff(pace), backoff.WithMaxElapsedTime(0))
}
