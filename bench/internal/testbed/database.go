package testbed

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A Database is one measurement's own.
type Database struct {
	bed  *Bed
	name string
	// Pool is for what is not measured: loading, counting, operators' statements.
	Pool *pgxpool.Pool
}

// Database makes a copy of the schema's template.
func (b *Bed) Database(ctx context.Context, schema Schema) (*Database, error) {
	template, err := b.template(ctx, schema)
	if err != nil {
		return nil, err
	}
	d := &Database{bed: b}
	if d.name, err = b.create(ctx, template); err != nil {
		return nil, err
	}
	if d.Pool, err = d.Connect(ctx, 8, nil); err != nil {
		return nil, err
	}
	return d, nil
}

// URL is the database's connection string.
func (d *Database) URL() string { return d.bed.server.URL(d.name) }

// Connect opens a pool of at most conns connections, counted by m unless it is nil.
func (d *Database) Connect(ctx context.Context, conns int, m *Meter) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(d.URL())
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(conns)
	if m != nil {
		config.ConnConfig.Tracer = m
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &meteredConn{Conn: conn, meter: m}, err
		}
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// Rest brings the database to the state in which it would be found after a quiet
// time: its tables vacuumed and analyzed, everything written out.
func (d *Database) Rest(ctx context.Context) error {
	var tables string
	if err := d.Pool.QueryRow(ctx, `
SELECT string_agg(t.relid::regclass::text, ', ') FROM pg_stat_user_tables AS t`).Scan(&tables); err != nil {
		return err
	}
	for _, statement := range []string{"VACUUM (ANALYZE) " + tables, "CHECKPOINT"} {
		if _, err := d.Pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Drop removes the database, whoever is connected to it. An error is of no use to
// anyone: the server goes soon.
func (d *Database) Drop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d.Pool.Close()
	_, _ = d.bed.admin.Exec(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)")
}
