package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
)

// verdict is a result on its way to the database.
type verdict struct {
	event  Claimed
	result Result
}

// settler stores results in batches. While one batch is on its way the next one gathers, so that batches grow
// with the load and a lone result never waits.
type settler struct {
	store   *store
	flights *flights
	log     *slog.Logger
	in      chan verdict
	quit    chan struct{}
	// landed is called after each batch: an acknowledged event may have made way for the next one.
	landed  func()
	settled func(Claimed, string)
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
		case Settled:
			s.land(v, string(Settled))
		default:
			failed = append(failed, v)
		}
	}
	if len(done) > 0 {
		s.acknowledge(ctx, done)
	}
	if len(failed) > 0 {
		s.fail(ctx, failed)
	}
	for delay, some := range released {
		s.release(ctx, some, delay)
	}
	s.landed()
}

func (s *settler) acknowledge(ctx context.Context, batch []verdict) {
	ids, tokens := keys(batch)
	lost, err := stubbornly(ctx, s.log, "acknowledge", func() ([]uuid.UUID, error) {
		return s.store.markProcessed(ctx, ids, tokens)
	})
	if err != nil {
		s.giveUp(batch, err)
		return
	}
	gone := map[uuid.UUID]bool{}
	for _, id := range lost {
		gone[id] = true
		s.log.Warn("outbox: event was handled but its lease had been lost, so it may be handled again", "event_id", id)
	}
	for _, v := range batch {
		outcome := string(Processed)
		if gone[v.event.ID] {
			outcome = "lost"
		}
		s.land(v, outcome)
	}
}

func (s *settler) fail(ctx context.Context, batch []verdict) {
	outcomes, err := stubbornly(ctx, s.log, "record failures", func() (map[uuid.UUID]string, error) {
		return s.store.markFailed(ctx, batch)
	})
	if err != nil {
		s.giveUp(batch, err)
		return
	}
	for _, v := range batch {
		s.log.Warn("outbox: event failed", "event_id", v.event.ID, "event_type", v.event.EventType,
			"attempt", v.event.Attempt, "outcome", outcomes[v.event.ID], "error", cleanError(v.result.Error))
		s.land(v, outcomes[v.event.ID])
	}
}

func (s *settler) release(ctx context.Context, batch []verdict, delay time.Duration) {
	ids, tokens := keys(batch)
	_, err := stubbornly(ctx, s.log, "release", func() (struct{}, error) {
		return struct{}{}, s.store.release(ctx, ids, tokens, delay)
	})
	if err != nil {
		s.giveUp(batch, err)
		return
	}
	for _, v := range batch {
		s.land(v, string(Release))
	}
}

func (s *settler) land(v verdict, outcome string) {
	s.flights.landed(v.event)
	if s.settled != nil {
		s.settled(v.event, outcome)
	}
}

// giveUp leaves the events to the end of their leases; they stay listed as unsettled.
func (s *settler) giveUp(batch []verdict, err error) {
	s.log.Error("outbox: results could not be stored; the events come back when their leases end", "events", len(batch), "error", err)
}

// stubbornly repeats what is safe to repeat: a second acknowledgement under the same token changes nothing.
func stubbornly[T any](ctx context.Context, log *slog.Logger, what string, do func() (T, error)) (T, error) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = 20*time.Millisecond, 5*time.Second
	return backoff.Retry(ctx, func() (T, error) {
		value, err := do()
		if err != nil && classify(err) == fatal {
			return value, backoff.Permanent(err)
		}
		return value, err
	}, backoff.WithBackOff(pace), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, in time.Duration) {
		log.Warn("outbox: database call failed, will be repeated", "call", what, "in", in, "error", err)
	}))
}

func keys(batch []verdict) (ids, tokens []string) {
	for _, v := range batch {
		ids = append(ids, v.event.ID.String())
		tokens = append(tokens, v.event.Token)
	}
	return ids, tokens
}
