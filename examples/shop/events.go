package shop

import (
	"cmp"

	"github.com/openlup/pgrail/outbox/event"
)

// What can happen, each with the payload it carries. A service that handles these events imports this file's package, or
// one with nothing but these definitions in it: package event needs no database driver.
var (
	CustomerRegistered = event.MustDefine[Customer]("customer.registered")
	CustomerMoved      = event.MustDefine[Move]("customer.moved")

	OrderPlaced    = event.MustDefine[Order]("order.placed")
	OrderPaid      = event.MustDefine[Payment]("order.paid")
	OrderShipped   = event.MustDefine[Shipment]("order.shipped")
	OrderCancelled = event.MustDefine[Cancellation]("order.cancelled")

	InvoiceIssued  = event.MustDefine[Invoice]("invoice.issued")
	InvoiceSettled = event.MustDefine[Payment]("invoice.settled")

	// RepositoryPushed comes in by webhook, see hooks.go.
	RepositoryPushed = event.MustDefine[Push]("repository.pushed")

	// AdminRevoked is enqueued by pgrail itself, in the transaction that removes an admin.
	AdminRevoked = event.MustDefine[Revocation]("identity.admin.revoked")
)

// The payloads. Amounts are in euro cents.
type (
	Customer struct {
		Name  string `json:"name"`
		Email string `json:"email"`
		City  string `json:"city"`
	}
	Move struct {
		City string `json:"city"`
	}
	Order struct {
		CustomerID string `json:"customer_id"`
		Items      []Item `json:"items"`
		TotalCents int64  `json:"total_cents"`
	}
	Item struct {
		SKU      string `json:"sku"`
		Quantity int64  `json:"quantity"`
		Cents    int64  `json:"cents"` // of one piece
	}
	Payment struct {
		Method string `json:"method"`
		Cents  int64  `json:"cents"`
	}
	Shipment struct {
		Carrier  string `json:"carrier"`
		Tracking string `json:"tracking"`
	}
	Cancellation struct {
		Reason string `json:"reason"`
	}
	Invoice struct {
		OrderID string `json:"order_id"`
		Number  string `json:"number"`
		Cents   int64  `json:"cents"`
	}
	Push struct {
		Repository string `json:"repository"`
		Ref        string `json:"ref"`
		Commit     string `json:"commit"`
	}
	Revocation struct {
		UserID  string `json:"userId"`
		ActorID string `json:"actorId"`
		Path    string `json:"path"`
	}
)

// Each check answers a [*FieldError] for the first field that cannot be right, or nil.

func (c Customer) check() error {
	return cmp.Or(filled("name", c.Name), filled("email", c.Email), filled("city", c.City))
}

func (m Move) check() error { return filled("city", m.City) }

func (o Order) check() error {
	if len(o.Items) == 0 {
		return &FieldError{"items", "must not be empty"}
	}
	var total int64
	for _, item := range o.Items {
		err := cmp.Or(filled("items.sku", item.SKU), amount("items.quantity", item.Quantity), amount("items.cents", item.Cents))
		if err != nil {
			return err
		}
		total += item.Quantity * item.Cents
	}
	if total != o.TotalCents {
		return &FieldError{"total_cents", "must be the sum of quantity times cents of the items"}
	}
	return cmp.Or(isID("customer_id", o.CustomerID), amount("total_cents", o.TotalCents))
}

func (p Payment) check() error { return cmp.Or(filled("method", p.Method), amount("cents", p.Cents)) }
func (s Shipment) check() error {
	return cmp.Or(filled("carrier", s.Carrier), filled("tracking", s.Tracking))
}

func (c Cancellation) check() error { return filled("reason", c.Reason) }

func (i Invoice) check() error {
	return cmp.Or(isID("order_id", i.OrderID), filled("number", i.Number), amount("cents", i.Cents))
}
