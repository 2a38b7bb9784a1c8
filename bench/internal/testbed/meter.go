package testbed

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// A Meter counts what a client sends. Statements are those the client names,
// BEGIN and COMMIT included, not what functions on the server run inside; preparing
// one counts as a round trip only.
type Meter struct {
	statements atomic.Int64
	roundTrips atomic.Int64
}

// Counts are those so far.
func (m *Meter) Counts() (statements, roundTrips int64) {
	return m.statements.Load(), m.roundTrips.Load()
}

// TraceQueryStart counts a single statement.
func (m *Meter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	m.statements.Add(1)
	return ctx
}

// TraceQueryEnd counts nothing.
func (*Meter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart counts nothing: the batch's statements follow one by one.
func (*Meter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery counts a statement of a batch.
func (m *Meter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	m.statements.Add(1)
}

// TraceBatchEnd counts nothing.
func (*Meter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceCopyFromStart counts a COPY.
func (m *Meter) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	m.statements.Add(1)
	return ctx
}

// TraceCopyFromEnd counts nothing.
func (*Meter) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

// meteredConn counts a round trip when an answer arrives after something was sent,
// however many packets either took. Notifications arrive unasked and do not count.
type meteredConn struct {
	net.Conn
	meter   *Meter
	waiting atomic.Bool
}

func (c *meteredConn) Write(b []byte) (int, error) {
	c.waiting.Store(true)
	return c.Conn.Write(b)
}

func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.waiting.Swap(false) {
		c.meter.roundTrips.Add(1)
	}
	return n, err
}
