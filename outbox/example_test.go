package outbox_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

type order struct {
	ID    uuid.UUID `json:"id"`
	Cents int       `json:"cents"`
}

var orderPlaced = event.MustDefine[order]("example.order_placed")

// place writes an order and announces it: both, or neither.
func place(ctx context.Context, pool *pgxpool.Pool, o order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders (id, cents) values ($1, $2)", o.ID, o.Cents); err != nil {
			return err
		}
		_, err := outbox.Enqueue(ctx, tx, orderPlaced.New("order", o.ID, "placed/"+o.ID.String(), o))
		return err
	})
}

// A producer and a consumer, which may as well be two programs. It is compiled and not run, as it needs a database; the
// tests of this package run its parts against one.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	var handlers outbox.Handlers
	outbox.Handle(&handlers, orderPlaced, func(ctx context.Context, e event.Event[order]) error {
		log.Printf("order %s of %d cents, attempt %d", e.Payload.ID, e.Payload.Cents, e.Attempt)
		return nil // or event.Discard, event.Snooze, event.Unavailable, or any error to try again later
	})
	worker, err := outbox.NewWorker(pool, &handlers, outbox.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := place(ctx, pool, order{uuid.New(), 4200}); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil { // until SIGTERM, then stops in stages
		log.Print(err)
	}
}

// Effects in the same database happen exactly once: they commit together with the acknowledgement.
func ExampleHandleTx() {
	var handlers outbox.Handlers
	outbox.HandleTx(&handlers, orderPlaced, func(ctx context.Context, tx pgx.Tx, e event.Event[order]) error {
		_, err := tx.Exec(ctx, "update revenue set cents = cents + $1", e.Payload.Cents)
		return err
	})
}
