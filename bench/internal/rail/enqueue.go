package rail

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"
)

// Keys says which aggregate the i-th event belongs to.
type Keys func(i int) uuid.UUID

// OneEach gives every event an aggregate of its own.
func OneEach(i int) uuid.UUID { return number(i) }

// OneHot puts all events into one aggregate.
func OneHot(int) uuid.UUID { return number(0) }

// Zipf spreads events over n aggregates so that the k-th is 1/k^s as busy as the
// first: the skew of customers, tenants and products. Equal in every run.
func Zipf(s float64, n uint64) Keys {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), s, 1, n-1)
	return func(int) uuid.UUID { return number(int(zipf.Uint64())) }
}

func number(i int) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)) }

// A Batch holds the parallel arrays of one enqueueing.
type Batch struct {
	types, keys, aggregateTypes, payloads []string
	aggregates                            []uuid.UUID
}

// NewBatch makes n events, the first being the from-th of its series. Names keep
// the idempotency keys of several series apart.
func NewBatch(series string, from, n int, keys Keys) Batch {
	var b Batch
	for i := from; i < from+n; i++ {
		b.types = append(b.types, Types[i%len(Types)])
		b.keys = append(b.keys, fmt.Sprintf("%s-%d", series, i))
		b.aggregateTypes = append(b.aggregateTypes, "order")
		b.aggregates = append(b.aggregates, keys(i))
		b.payloads = append(b.payloads, Payload)
	}
	return b
}

// Enqueue writes the batch in one statement and one transaction.
func Enqueue(ctx context.Context, conn Conn, b Batch) error {
	_, err := conn.Exec(ctx, `
SELECT FROM public.outbox_enqueue($1::text[], $2::text[], $3::text[], $4::uuid[], $5::text[])`,
		b.types, b.keys, b.aggregateTypes, b.aggregates, b.payloads)
	return err
}

// Fill enqueues n events in batches of at most size.
func Fill(ctx context.Context, conn Conn, n, size int, keys Keys) error {
	for from := 0; from < n; from += size {
		if err := Enqueue(ctx, conn, NewBatch("fill", from, min(size, n-from), keys)); err != nil {
			return err
		}
	}
	return nil
}
