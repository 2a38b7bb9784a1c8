package outboxotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// scope names this library in what it measures.
const scope = "github.com/openlup/pgrail/outbox"

// Config says where measurements and traces go.
type Config struct {
	// MeterProvider takes the metrics; the global one by default.
	MeterProvider metric.MeterProvider
	// TracerProvider takes the spans; the global one by default.
	TracerProvider trace.TracerProvider
}

// Telemetry measures the workers of one process. Its parts can be used each for itself.
type Telemetry struct {
	meter       metric.Meter
	tracer      trace.Tracer
	instruments instruments
}

// New makes the instruments. Its error is the meter provider's.
func New(cfg Config) (*Telemetry, error) {
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	t := &Telemetry{meter: cfg.MeterProvider.Meter(scope), tracer: cfg.TracerProvider.Tracer(scope)}
	var err error
	t.instruments, err = newInstruments(t.meter)
	return t, err
}

// The keys of attributes on metrics. Ids are left to spans, as each value of an attribute is a series of its own.
const (
	typeKey    = attribute.Key("event_type")
	outcomeKey = attribute.Key("outcome")
	stateKey   = attribute.Key("state")
)

// Observer counts what a worker tells, for outbox.Config.
func (t *Telemetry) Observer() outbox.Observer {
	ctx, i := context.Background(), t.instruments
	return outbox.Observer{
		Settled: func(e event.Envelope, outcome outbox.Outcome) {
			i.events.Add(ctx, 1, metric.WithAttributes(typeKey.String(e.EventType), outcomeKey.String(string(outcome))))
		},
		Claimed: func(events int, took time.Duration) {
			i.claimSize.Record(ctx, int64(events))
			i.claimDuration.Record(ctx, took.Seconds())
		},
		Extended: func(leases int) { i.extended.Add(ctx, int64(leases)) },
		TookOver: func(events int) { i.takenOver.Add(ctx, int64(events)) },
		Healed:   func(marks int) { i.healed.Add(ctx, int64(marks)) },
		Pruned:   func(events int) { i.pruned.Add(ctx, int64(events)) },
	}
}
