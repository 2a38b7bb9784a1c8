package event_test

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/outbox/event"
)

// Order is a payload. Services that share events put it, and its definition, in a package that both import.
type Order struct {
	Number string `json:"number"`
	Cents  int    `json:"cents"`
}

var OrderPlaced = event.MustDefine[Order]("example.order_placed")

// A producer drafts an event by its definition; a consumer decodes it by the same one, so the two cannot disagree.
func Example() {
	id := uuid.MustParse("6a0b4f9e-4a0a-4f63-8d05-0d2c5b1c6f10")
	draft := OrderPlaced.New("order", id, "placed/"+id.String(), Order{"A-17", 4200}).WithMetadata("tenant", "acme")
	fmt.Println(draft.Validate(), string(draft.Payload))

	// What arrives at a handler, registered by outbox.Handle, comes decoded. Relays do it by hand:
	order, err := OrderPlaced.Decode(event.Envelope{EventType: draft.EventType, Payload: draft.Payload})
	fmt.Println(order.Number, order.Cents, err)

	// Wrong input is told before any SQL, by field.
	var invalid *event.InvalidError
	errors.As(OrderPlaced.New("order", id, "", order).Validate(), &invalid)
	fmt.Println(invalid.Field, invalid.Problem)

	// Output:
	// <nil> {"number":"A-17","cents":4200}
	// A-17 4200 <nil>
	// IdempotencyKey is blank
}

// An HTTP answer decides what becomes of the event that was sent.
func ExampleFromStatus() {
	for _, status := range []int{204, 429, 422, 500} {
		fmt.Println(status, event.FromStatus(status))
	}
	// Output:
	// 204 <nil>
	// 429 downstream unavailable: HTTP status 429
	// 422 discard: HTTP status 422
	// 500 HTTP status 500
}
