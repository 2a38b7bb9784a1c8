package outboxotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
)

// How far each figure is counted, so that a collection stays cheap whatever has piled up, and how long a type's events wait
// unclaimed until it counts as an orphan.
const (
	countCap      = 10_000
	orphanSeconds = 300
)

// backlog are the gauges over the table itself.
type backlog struct {
	waiting, orphans metric.Int64ObservableGauge
	oldest           metric.Float64ObservableGauge
}

// ObserveBacklog measures what waits in the database, with one query at each collection, until stop is called. The figures are
// of the whole table, so one process is enough; of several, take the maximum. It needs the rights of an operator. A
// collection that fails reports its error to the SDK.
func (t *Telemetry) ObserveBacklog(tx outbox.DB) (stop func() error, err error) {
	if tx == nil {
		return nil, &outbox.ConfigError{Field: "tx", Value: "nil", Allowed: "a transaction, connection or pool"}
	}
	b, err := newBacklog(t.meter)
	if err != nil {
		return nil, err
	}
	registration, err := t.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		return b.observe(ctx, tx, to)
	}, b.waiting, b.orphans, b.oldest)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}

func newBacklog(m metric.Meter) (b backlog, err error) {
	var errs [3]error
	b.waiting, errs[0] = m.Int64ObservableGauge("pgrail.outbox.backlog", metric.WithUnit("{event}"),
		metric.WithDescription("Events that are not processed, by event type and state: due, later, parked, in_flight, discarded; each counted up to 10000."))
	b.oldest, errs[1] = m.Float64ObservableGauge("pgrail.outbox.oldest.age", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest event that is due, by event type."))
	b.orphans, errs[2] = m.Int64ObservableGauge("pgrail.outbox.orphans", metric.WithUnit("{type}"),
		metric.WithDescription("1 for each event type that no worker takes although its events are due for five minutes."))
	return b, errors.Join(errs[:]...)
}

func (b backlog) observe(ctx context.Context, tx outbox.DB, to metric.Observer) error {
	types, err := db.New(tx).OperateOverview(ctx, db.OperateOverviewParams{AtMost: countCap, IdleSeconds: orphanSeconds})
	if err != nil {
		return fmt.Errorf("outboxotel: read the backlog: %w", err)
	}
	for _, one := range types {
		ofType := typeKey.String(one.EventType)
		for state, n := range map[string]int64{
			"due": one.Due, "later": max(one.Waiting-one.Due-one.Blocked, 0), "parked": one.Blocked,
			"in_flight": one.InFlight, "discarded": one.Discarded,
		} {
			to.ObserveInt64(b.waiting, n, metric.WithAttributes(ofType, stateKey.String(state)))
		}
		to.ObserveFloat64(b.oldest, one.OldestAgeSeconds, metric.WithAttributes(ofType))
		if one.Unclaimed {
			to.ObserveInt64(b.orphans, 1, metric.WithAttributes(ofType))
		}
	}
	return nil
}
