package shop

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/outbox"
)

// maxTries bounds how often a transaction runs that others got in the way of.
const maxTries = 5

// Record writes a change and its event in one transaction: afterwards both are there, or neither is. A change that was
// recorded before is left alone and reported as a duplicate. One that the shop cannot take is a [*FieldError].
func (s *Shop) Record(ctx context.Context, c Change) (receipt outbox.Receipt, err error) {
	for try := 1; ; try++ {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			receipts, err := outbox.Enqueue(ctx, tx, c.Draft)
			if err != nil {
				return err
			}
			receipt = receipts[0]
			if receipt.Duplicate {
				return sameAgain(receipt)
			}
			return c.write(ctx, tx)
		})
		if try == maxTries || !errors.Is(err, outbox.ErrRetryTransaction) {
			return receipt, err
		}
	}
}

func sameAgain(receipt outbox.Receipt) error {
	if !receipt.SamePayload {
		return &FieldError{"key", "was used before, by a change with other data"}
	}
	return nil
}

// Below is the shop's own business, one function per kind of change. Each leaves the rule to the WHERE clause: a change
// that finds no row to change is refused, and its event is rolled back with it.

func register(ctx context.Context, tx pgx.Tx, id uuid.UUID, c Customer) error {
	return one("id", "is a customer already")(tx.Exec(ctx,
		`INSERT INTO shop.customers (id, name, email, city) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		id, c.Name, c.Email, c.City))
}

func move(ctx context.Context, tx pgx.Tx, id uuid.UUID, m Move) error {
	return one("id", "is no customer")(tx.Exec(ctx,
		`UPDATE shop.customers SET city = $2 WHERE id = $1`, id, m.City))
}

func place(ctx context.Context, tx pgx.Tx, id uuid.UUID, o Order) error {
	return one("id", "is an order already")(tx.Exec(ctx,
		`INSERT INTO shop.orders (id, customer_id, total_cents, status) VALUES ($1, $2, $3, 'placed') ON CONFLICT DO NOTHING`,
		id, o.CustomerID, o.TotalCents))
}

func pay(ctx context.Context, tx pgx.Tx, id uuid.UUID, p Payment) error {
	return one("id", "is no order that waits for this sum")(tx.Exec(ctx,
		`UPDATE shop.orders SET status = 'paid' WHERE id = $1 AND status = 'placed' AND total_cents = $2`, id, p.Cents))
}

func ship(ctx context.Context, tx pgx.Tx, id uuid.UUID, _ Shipment) error {
	return one("id", "is no order that is paid")(tx.Exec(ctx,
		`UPDATE shop.orders SET status = 'shipped' WHERE id = $1 AND status = 'paid'`, id))
}

func cancel(ctx context.Context, tx pgx.Tx, id uuid.UUID, _ Cancellation) error {
	return one("id", "is no order that can still be cancelled")(tx.Exec(ctx,
		`UPDATE shop.orders SET status = 'cancelled' WHERE id = $1 AND status IN ('placed', 'paid')`, id))
}

func issue(ctx context.Context, tx pgx.Tx, id uuid.UUID, i Invoice) error {
	return one("id", "is an invoice already")(tx.Exec(ctx,
		`INSERT INTO shop.invoices (id, order_id, cents) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, id, i.OrderID, i.Cents))
}

func settle(ctx context.Context, tx pgx.Tx, id uuid.UUID, p Payment) error {
	return one("id", "is no open invoice of this sum")(tx.Exec(ctx,
		`UPDATE shop.invoices SET settled = true WHERE id = $1 AND NOT settled AND cents = $2`, id, p.Cents))
}

// one wants a statement to have changed one row.
func one(field, otherwise string) func(pgconn.CommandTag, error) error {
	return func(tag pgconn.CommandTag, err error) error {
		if err == nil && tag.RowsAffected() != 1 {
			return &FieldError{field, otherwise}
		}
		return err
	}
}
