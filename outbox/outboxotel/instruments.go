package outboxotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are what workers write to. Their names are a promise: dashboards and alerts are built on them.
type instruments struct {
	events, extended, lost, takenOver, healed, pruned metric.Int64Counter
	handlerDuration, lag, claimDuration               metric.Float64Histogram
	claimSize                                         metric.Int64Histogram
}

// Bounds of the histograms: handlers and claims last milliseconds to minutes, the lag may be hours.
var (
	short = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	long  = metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
	sizes = metric.WithExplicitBucketBoundaries(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
)

func newInstruments(m metric.Meter) (i instruments, err error) {
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, description string, bounds metric.HistogramOption) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), bounds)
		errs = append(errs, err)
		return h
	}
	i.events = counter("pgrail.outbox.events", "{event}", "Deliveries by event type and outcome, once the database has taken it.")
	i.extended = counter("pgrail.outbox.leases.extended", "{lease}", "Leases of running handlers that were extended.")
	i.lost = counter("pgrail.outbox.leases.lost", "{lease}", "Handlers cancelled because their event may be another worker's by now.")
	i.takenOver = counter("pgrail.outbox.takeovers", "{event}", "Events of dead workers that were given back.")
	i.healed = counter("pgrail.outbox.marks.healed", "{mark}", "Marks of the rail that were wrong and were set right.")
	i.pruned = counter("pgrail.outbox.pruned", "{event}", "Old events that were deleted by workers.")
	i.handlerDuration = seconds("pgrail.outbox.handler.duration", "Time that handlers take.", short)
	i.lag = seconds("pgrail.outbox.lag", "From the creation of an event to its first claim, by the database's clock; a scheduled delay is part of it.", long)
	i.claimDuration = seconds("pgrail.outbox.claim.duration", "Time that claims take, the round trip included.", short)
	i.claimSize, err = m.Int64Histogram("pgrail.outbox.claim.size", metric.WithUnit("{event}"),
		metric.WithDescription("Events that a claim brings."), sizes)
	return i, errors.Join(append(errs, err)...)
}
