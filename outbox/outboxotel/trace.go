package outboxotel

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/openlup/pgrail/outbox/event"
)

// w3c is how a trace travels, in the metadata keys traceparent and tracestate: consumers in other languages read them too.
var w3c propagation.TraceContext

// WithTrace returns a copy of the draft that carries the trace of ctx to the event's handler; without one, the draft itself.
func WithTrace(ctx context.Context, draft event.Draft) event.Draft {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	for _, key := range carrier.Keys() {
		draft = draft.WithMetadata(key, carrier.Get(key))
	}
	return draft
}

// producer returns the span that an event's producer was in. What does not read as one is as good as none, as metadata can be
// anyone's.
func producer(e event.Envelope) trace.SpanContext {
	var traced struct {
		Parent any `json:"traceparent"`
		State  any `json:"tracestate"`
	}
	if json.Unmarshal(e.Metadata, &traced) != nil {
		return trace.SpanContext{}
	}
	parent, _ := traced.Parent.(string)
	state, _ := traced.State.(string)
	carrier := propagation.MapCarrier{"traceparent": parent, "tracestate": state}
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), carrier))
}
