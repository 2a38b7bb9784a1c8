// Command first tells of orders and handles them: "first 1290" places one of 1290 cents, "first" works until Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/migrate"
	"github.com/openlup/pgrail/outbox"
	"github.com/openlup/pgrail/outbox/event"
)

type Order struct {
	Cents int `json:"cents"`
}

var OrderPlaced = event.MustDefine[Order]("order.placed")

// ship handles an order.
func ship(_ context.Context, e event.Event[Order]) error {
	if e.Payload.Cents < 0 {
		return event.Discard(errors.New("less than nothing"))
	}
	fmt.Printf("shipped an order of %d cents, try %d\n", e.Payload.Cents, e.Attempt)
	return nil
}

func run(ctx context.Context, databaseURL string, args []string) error {
	if err := migrate.Up(ctx, databaseURL); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	if len(args) > 0 {
		cents, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		id := uuid.New()
		// In the place of the pool, an application passes the transaction that writes the order.
		receipts, err := outbox.Enqueue(ctx, pool, OrderPlaced.New("order", id, id.String(), Order{cents}))
		if err != nil {
			return err
		}
		fmt.Println("event", receipts[0].ID)
		return nil
	}
	var handlers outbox.Handlers
	outbox.Handle(&handlers, OrderPlaced, ship)
	worker, err := outbox.NewWorker(pool, &handlers, outbox.Config{})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("DATABASE_URL"), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
