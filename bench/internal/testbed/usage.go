package testbed

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Usage is what work cost, on the server and on the wire.
type Usage struct {
	WALBytes     float64 `db:"wal_bytes"`
	Transactions float64 `db:"transactions"`
	Inserted     float64 `db:"inserted"`
	Updated      float64 `db:"updated"`
	HOTUpdated   float64 `db:"hot_updated"`
	Bytes        float64 `db:"bytes"` // on disk: tables and indexes
	Statements   float64 `db:"-"`
	RoundTrips   float64 `db:"-"`
}

const readUsage = `
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS wal_bytes,
       (SELECT d.xact_commit::float8 FROM pg_stat_database AS d WHERE d.datname = current_database()) AS transactions,
       coalesce(sum(t.n_tup_ins), 0)::float8 AS inserted,
       coalesce(sum(t.n_tup_upd), 0)::float8 AS updated,
       coalesce(sum(t.n_tup_hot_upd), 0)::float8 AS hot_updated,
       coalesce(sum(pg_total_relation_size(t.relid)), 0)::float8 AS bytes
FROM pg_stat_user_tables AS t`

const othersConnected = `
SELECT EXISTS (SELECT FROM pg_stat_activity AS a
               WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid())`

// Usage reads the counters as they stand; m may be nil. All pools on the database
// but its own must be closed: a session that ends reports all it did, one that is
// connected may hold back the last second's.
func (d *Database) Usage(ctx context.Context, m *Meter) (Usage, error) {
	d.Pool.Reset()
	conn, err := pgx.Connect(ctx, d.URL())
	if err != nil {
		return Usage{}, err
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := waitUntilAlone(ctx, conn); err != nil {
		return Usage{}, err
	}
	rows, err := conn.Query(ctx, readUsage)
	if err != nil {
		return Usage{}, err
	}
	u, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Usage])
	if m != nil {
		statements, roundTrips := m.Counts()
		u.Statements, u.RoundTrips = float64(statements), float64(roundTrips)
	}
	return u, err
}

func waitUntilAlone(ctx context.Context, conn *pgx.Conn) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var others bool
		if err := conn.QueryRow(ctx, othersConnected).Scan(&others); err != nil || !others {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// PerEvent is the use since before, shared among n events.
func (u Usage) PerEvent(before Usage, n int) Usage {
	each := func(now, then float64) float64 { return (now - then) / float64(n) }
	return Usage{
		WALBytes:     each(u.WALBytes, before.WALBytes),
		Transactions: each(u.Transactions, before.Transactions),
		Inserted:     each(u.Inserted, before.Inserted),
		Updated:      each(u.Updated, before.Updated),
		HOTUpdated:   each(u.HOTUpdated, before.HOTUpdated),
		Bytes:        each(u.Bytes, before.Bytes),
		Statements:   each(u.Statements, before.Statements),
		RoundTrips:   each(u.RoundTrips, before.RoundTrips),
	}
}
