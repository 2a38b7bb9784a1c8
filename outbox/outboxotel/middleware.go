package outboxotel

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

// Middleware measures each call of a handler and puts a span around it, for [outbox.Handlers.Use]. The span continues the trace
// that [WithTrace] put into the event, and links to the producer's span there. An error of the handler is the span's too,
// unless it is a snooze.
func (t *Telemetry) Middleware(next event.Handler) event.Handler {
	return func(ctx context.Context, e event.Envelope) error {
		ofType := metric.WithAttributes(typeKey.String(e.EventType))
		if lag, ok := lag(e); ok {
			t.instruments.lag.Record(ctx, lag.Seconds(), ofType)
		}
		ctx, span := t.start(ctx, e)
		began := time.Now()
		err := errPanic
		// Deferred, so that a handler that panics is measured like any other.
		defer func() {
			t.instruments.handlerDuration.Record(ctx, time.Since(began).Seconds(), ofType)
			if errors.Is(context.Cause(ctx), outbox.ErrLeaseLost) {
				t.instruments.lost.Add(ctx, 1, ofType)
			}
			end(span, err)
		}()
		err = next(ctx, e)
		return err
	}
}

// errPanic stands for a handler that did not return.
var errPanic = errors.New("the handler panicked or left its goroutine")

func (t *Telemetry) start(ctx context.Context, e event.Envelope) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.system", "pgrail"),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", e.EventType),
			attribute.String("messaging.message.id", e.ID.String()),
			attribute.String("pgrail.aggregate.type", e.AggregateType),
			attribute.String("pgrail.aggregate.id", e.AggregateID.String()),
			attribute.Int("pgrail.attempt", e.Attempt),
		),
	}
	if from := producer(e); from.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	return t.tracer.Start(ctx, "process "+e.EventType, options...)
}

func end(span trace.Span, err error) {
	defer span.End()
	var snooze *event.SnoozeError
	if err == nil || errors.As(err, &snooze) {
		return
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}

// lag is the time from an event's creation to the claim that brought it, both by the database's clock. Only the first try has
// one: later ones waited on purpose.
func lag(e event.Envelope) (time.Duration, bool) {
	var claim struct {
		At      time.Time `json:"lastClaimedAt"`
		Snoozes int       `json:"snoozeCount"`
	}
	if json.Unmarshal(e.Metadata, &claim) != nil || claim.At.IsZero() || e.Attempt != 1 || claim.Snoozes > 0 {
		return 0, false
	}
	return claim.At.Sub(e.CreatedAt), true
}
