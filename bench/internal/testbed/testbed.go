// Package testbed gives each measurement an empty database of its own on one
// durable server, and says what machine and versions the figures come from.
package testbed

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

// settings are what a database server of this size is commonly given. Commits are
// durable, and no checkpoint falls into one contender's run only: each is preceded
// by one, see [Database.Rest].
var settings = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"shared_buffers":     "2GB",
	"max_wal_size":       "8GB",
	"checkpoint_timeout": "30min",
	"max_connections":    "200",
}

// A Bed is a server and the templates made on it.
type Bed struct {
	server    server.Server
	admin     *pgxpool.Pool
	templates map[string]string
	serial    atomic.Int64
}

// Start starts a server, or takes the one that PGRAIL_TEST_DATABASE_URL names, and
// refuses one whose commits are not durable.
func Start(ctx context.Context) (*Bed, error) {
	s, err := server.Choose(ctx, server.Options{Settings: settings})
	if err != nil {
		return nil, err
	}
	b := &Bed{server: s, templates: map[string]string{}}
	if b.admin, err = pgxpool.New(ctx, s.URL("postgres")); err != nil {
		_ = s.Close()
		return nil, err
	}
	if err := b.mustBeDurable(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close drops the templates and stops the server, if Start has started it.
func (b *Bed) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, name := range b.templates {
		_, _ = b.admin.Exec(ctx, "DROP DATABASE "+name)
	}
	b.admin.Close()
	_ = b.server.Close()
}

// create makes a database; its name carries the process, as a server named by URL
// may serve two runs at once.
func (b *Bed) create(ctx context.Context, template string) (string, error) {
	name := fmt.Sprintf("pgrail_bench_%d_%d", os.Getpid(), b.serial.Add(1))
	_, err := b.admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template)
	return name, err
}

// A Schema fills an empty database.
type Schema struct {
	Name  string
	Apply func(ctx context.Context, url string) error
}

// template returns the database with the schema in it, made on first use.
func (b *Bed) template(ctx context.Context, schema Schema) (string, error) {
	if name, ok := b.templates[schema.Name]; ok {
		return name, nil
	}
	name, err := b.create(ctx, "template0")
	if err != nil {
		return "", err
	}
	b.templates[schema.Name] = name
	return name, schema.Apply(ctx, b.server.URL(name))
}
