package outboxotel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/openlup/pgrail/internal/pgtest"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
	"github.com/openlup/pgrail/outbox/outboxotel"
	"github.com/openlup/pgrail/outboxtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type order struct {
	N int `json:"n"`
}

var placed = event.MustDefine[order]("order.placed")

// sdk collects what a Telemetry writes.
type sdk struct {
	*outboxotel.Telemetry
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

func newSDK(t *testing.T) *sdk {
	t.Helper()
	s := &sdk{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	s.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(s.spans))
	var err error
	s.Telemetry, err = outboxotel.New(outboxotel.Config{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(s.reader)), TracerProvider: s.tracer,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// collect returns the metrics by name, each series as "attributes": value, where a histogram's value is its count.
func (s *sdk) collect(t *testing.T) map[string]map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = series(m.Data)
		}
	}
	return found
}

func series(data metricdata.Aggregation) map[string]float64 {
	values := map[string]float64{}
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		points(d.DataPoints, values)
	case metricdata.Gauge[int64]:
		points(d.DataPoints, values)
	case metricdata.Gauge[float64]:
		points(d.DataPoints, values)
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			values[label(p.Attributes)] = float64(p.Count)
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			values[label(p.Attributes)] = float64(p.Count)
		}
	}
	return values
}

func points[N int64 | float64](from []metricdata.DataPoint[N], to map[string]float64) {
	for _, p := range from {
		to[label(p.Attributes)] = float64(p.Value)
	}
}

func label(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

func draft(agg byte, n int) event.Draft {
	return placed.New("order", uuid.UUID{15: agg}, fmt.Sprint(agg, "-", n), order{n})
}

func enqueue(t *testing.T, tx outbox.DB, drafts ...event.Draft) {
	t.Helper()
	if _, err := outbox.Enqueue(t.Context(), tx, drafts...); err != nil {
		t.Fatal(err)
	}
}

// handlers end the first call for an event by its payload, under the middleware; the next ones succeed.
func (s *sdk) handlers(ends ...error) *outbox.Handlers {
	var handlers outbox.Handlers
	seen := map[uuid.UUID]bool{}
	handlers.Use(s.Middleware)
	outbox.Handle(&handlers, placed, func(_ context.Context, e event.Event[order]) error {
		if seen[e.ID] {
			return nil
		}
		seen[e.ID] = true
		return ends[e.Payload.N]
	})
	return &handlers
}

func TestMetricsOfDeliveries(t *testing.T) {
	t.Parallel()
	db, s := pgtest.New(t), newSDK(t)
	handlers := s.handlers(nil, errors.New("oh"), event.Discard(errors.New("no")), event.Snooze(0, nil))
	rail := outboxtest.New(t, db.Pool, handlers, outbox.Config{Observer: s.Observer()})
	for n := range 4 {
		enqueue(t, db.Pool, draft(byte(n), n))
	}
	rail.DrainAll()
	got := s.collect(t)
	const ofType = "event_type=order.placed"
	for name, want := range map[string]map[string]float64{
		"pgrail.outbox.events": {ofType + ",outcome=processed": 3, ofType + ",outcome=failed": 1,
			ofType + ",outcome=discarded": 1, ofType + ",outcome=snoozed": 1},
		// Retries and what was snoozed waited on purpose.
		"pgrail.outbox.lag": {ofType: 4},
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if n := got["pgrail.outbox.handler.duration"][ofType]; n < 6 {
		t.Errorf("%v handlers measured, want all", n)
	}
	if size, took := got["pgrail.outbox.claim.size"][""], got["pgrail.outbox.claim.duration"][""]; size < 6 || size != took {
		t.Errorf("%v sizes and %v durations of claims", size, took)
	}
}

func TestMetricsOfServices(t *testing.T) {
	t.Parallel()
	s := newSDK(t)
	o := s.Observer()
	o.Extended(2)
	o.TookOver(3)
	o.Healed(4)
	o.Pruned(5)
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := s.Middleware(func(context.Context, event.Envelope) error { cancel(outbox.ErrLeaseLost); return nil })
	if err := lost(ctx, event.Envelope{EventType: "a"}); err != nil {
		t.Error(err)
	}
	got := s.collect(t)
	for name, want := range map[string]map[string]float64{
		"pgrail.outbox.leases.extended": {"": 2}, "pgrail.outbox.takeovers": {"": 3}, "pgrail.outbox.marks.healed": {"": 4},
		"pgrail.outbox.pruned":      {"": 5},
		"pgrail.outbox.leases.lost": {"event_type=a": 1},
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	db, s := pgtest.New(t), newSDK(t)
	stop, err := s.ObserveBacklog(db.Pool)
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, db.Pool, draft(1, 0), draft(1, 1), draft(2, 0), draft(3, 0).WithDelay(time.Hour))
	if _, err := db.Pool.Exec(t.Context(), `update public.outbox_events set created_at = created_at - interval '10 minutes' where idempotency_key = '2-0'`); err != nil {
		t.Fatal(err)
	}
	got := s.collect(t)
	const ofType = "event_type=order.placed"
	want := map[string]float64{ofType + ",state=due": 2, ofType + ",state=later": 1, ofType + ",state=parked": 1,
		ofType + ",state=in_flight": 0, ofType + ",state=discarded": 0}
	if diff := cmp.Diff(want, got["pgrail.outbox.backlog"]); diff != "" {
		t.Errorf("backlog (-want +got):\n%s", diff)
	}
	if age := got["pgrail.outbox.oldest.age"][ofType]; age < 600 || age > 700 {
		t.Errorf("the oldest event is %v s old, want 600", age)
	}
	if diff := cmp.Diff(map[string]float64{ofType: 1}, got["pgrail.outbox.orphans"]); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if left := s.collect(t)["pgrail.outbox.backlog"]; len(left) > 0 {
		t.Errorf("measured after the stop: %v", left)
	}
}

func TestBacklogRefusals(t *testing.T) {
	t.Parallel()
	s := newSDK(t)
	if _, err := s.ObserveBacklog(nil); !errors.Is(err, outbox.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
	if _, err := s.ObserveBacklog(pgtest.New(t, pgtest.Empty()).Pool); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err == nil {
		t.Error("a collection without a schema had no error")
	}
}

// TestTraceGoesOn: the handler's span is in the producer's trace and links to the producer's span, also on a retry.
func TestTraceGoesOn(t *testing.T) {
	t.Parallel()
	db, s := pgtest.New(t), newSDK(t)
	ctx, producer := s.tracer.Tracer("test").Start(t.Context(), "place")
	enqueue(t, db.Pool, outboxotel.WithTrace(ctx, draft(1, 1)), outboxotel.WithTrace(t.Context(), draft(2, 0)))
	producer.End()
	outboxtest.New(t, db.Pool, s.handlers(nil, errors.New("oh")), outbox.Config{}).DrainAll()
	spans := s.spans.Ended()[1:]
	if len(spans) != 3 {
		t.Fatalf("%d spans of handlers, want 3", len(spans))
	}
	from := producer.SpanContext()
	for i, traced := range []bool{true, false, true} {
		span := spans[i]
		if span.Name() != "process order.placed" || len(span.Links()) > 1 {
			t.Errorf("span %d: %q with %d links", i, span.Name(), len(span.Links()))
		}
		linked := len(span.Links()) == 1 && span.Links()[0].SpanContext.SpanID() == from.SpanID()
		child := span.Parent().SpanID() == from.SpanID() && span.SpanContext().TraceID() == from.TraceID()
		if linked != traced || child != traced {
			t.Errorf("span %d: linked %t and continued %t, want %t", i, linked, child, traced)
		}
	}
	if got := []codes.Code{spans[0].Status().Code, spans[1].Status().Code, spans[2].Status().Code}; !cmp.Equal(got, []codes.Code{codes.Error, codes.Unset, codes.Unset}) {
		t.Errorf("statuses %v", got)
	}
}

// TestSpanEnds: a panic goes on as it came and is an error of the span; a snooze is none.
func TestSpanEnds(t *testing.T) {
	t.Parallel()
	s := newSDK(t)
	panics := s.Middleware(func(context.Context, event.Envelope) error { panic("at the wheel") })
	func() {
		defer func() {
			if cause := recover(); cause != "at the wheel" {
				t.Errorf("recovered %v", cause)
			}
		}()
		_ = panics(t.Context(), event.Envelope{})
	}()
	snoozes := s.Middleware(func(context.Context, event.Envelope) error { return event.Snooze(0, nil) })
	if err := snoozes(t.Context(), event.Envelope{}); err == nil {
		t.Error("the handler's error is gone")
	}
	var got []codes.Code
	for _, span := range s.spans.Ended() {
		got = append(got, span.Status().Code)
	}
	if diff := cmp.Diff([]codes.Code{codes.Error, codes.Unset}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

// TestForeignMetadata: what is no trace is none, whoever wrote it.
func TestForeignMetadata(t *testing.T) {
	t.Parallel()
	s := newSDK(t)
	handle := s.Middleware(func(context.Context, event.Envelope) error { return nil })
	for _, metadata := range []string{"", "{}", "[]", "not JSON", `{"traceparent": 1}`, `{"traceparent": "00-0-0-0"}`,
		`{"traceparent": {"a": 1}, "tracestate": []}`, `{"lastClaimedAt": "yesterday"}`} {
		if err := handle(t.Context(), event.Envelope{Metadata: []byte(metadata), Attempt: 1}); err != nil {
			t.Errorf("%s: %v", metadata, err)
		}
	}
	for _, span := range s.spans.Ended() {
		if len(span.Links()) > 0 || span.Parent().IsValid() {
			t.Errorf("a span goes on from %v", span.Parent())
		}
	}
	if lag := s.collect(t)["pgrail.outbox.lag"]; len(lag) > 0 {
		t.Errorf("lag measured without times: %v", lag)
	}
}
