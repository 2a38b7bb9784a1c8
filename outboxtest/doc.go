// Package outboxtest helps tests: those of applications that enqueue and handle events, and those of stores that claim to be
// the rail of package outbox.
//
// An application makes a [Rail] on a database of its test and drains it, synchronously and without waiting:
//
//	rail := outboxtest.New(t, pool, &handlers, outbox.Config{})
//	place(ctx, pool, order)
//	rail.RequireEnqueued(OrderPlaced.New("order", order.ID, key, order))
//	rail.RequireDelivered(OrderPlaced.New("order", order.ID, key, order))
//
// The example below is such a test in full. A store that others reach through the SQL contract goes through [TestRail].
//
// This package imports testing, so only tests should import it.
package outboxtest
