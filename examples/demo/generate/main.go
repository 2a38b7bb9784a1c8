// Command generate writes the events that the demo reads: a few thousand lines of a small shop's year, the same every
// time.
//
//	go run ./demo/generate >demo/events.jsonl
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/examples/shop"
)

const (
	customers = 300
	orders    = 800
	day       = 24 * 60 // all times are in minutes
	year      = 365 * day
)

type line struct {
	at   int
	Type string    `json:"type"`
	ID   uuid.UUID `json:"id"`
	Key  string    `json:"key"`
	Data any       `json:"data"`
}

type world struct {
	*rand.Rand
	lines []line
}

func main() {
	w := &world{Rand: rand.New(rand.NewPCG(20260301, 1))}
	var ids []uuid.UUID
	for n := range customers {
		ids = append(ids, w.customer(n))
	}
	for n := range orders {
		w.order(n, pick(w, ids))
	}
	slices.SortStableFunc(w.lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for _, l := range w.lines {
		if err := encoder.Encode(l); err != nil {
			log.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// tell notes what happens at a time. Most things happen once in the life of a customer, order or invoice, so type and id
// make a good key.
func (w *world) tell(at int, eventType string, id uuid.UUID, data any) {
	w.lines = append(w.lines, line{at, eventType, id, fmt.Sprintf("%s/%s", eventType, id), data})
}

func (w *world) customer(n int) uuid.UUID {
	id, at := w.id(), w.IntN(30*day)
	name := pick(w, firstNames) + " " + pick(w, lastNames)
	w.tell(at, shop.CustomerRegistered.Type(), id,
		shop.Customer{Name: name, Email: fmt.Sprintf("customer%d@mail.example", n), City: pick(w, cities)})
	if w.chance(20) {
		w.tell(at+1+w.IntN(year-at), shop.CustomerMoved.Type(), id, shop.Move{City: pick(w, cities)})
	}
	return id
}

func (w *world) order(n int, customer uuid.UUID) {
	id, at := w.id(), 30*day+w.IntN(year-60*day)
	order := shop.Order{CustomerID: customer.String()}
	for range 1 + w.IntN(3) {
		item := pick(w, goods)
		item.Quantity = int64(1 + w.IntN(4))
		order.Items = append(order.Items, item)
		order.TotalCents += item.Quantity * item.Cents
	}
	w.tell(at, shop.OrderPlaced.Type(), id, order)
	if w.chance(12) {
		w.tell(at+1+w.IntN(2*day), shop.OrderCancelled.Type(), id, shop.Cancellation{Reason: pick(w, reasons)})
		return
	}
	payment := shop.Payment{Method: pick(w, methods), Cents: order.TotalCents}
	paid := at + 1 + w.IntN(day)
	w.tell(paid, shop.OrderPaid.Type(), id, payment)
	shipped := paid + 60 + w.IntN(3*day)
	if w.chance(97) {
		w.tell(shipped, shop.OrderShipped.Type(), id,
			shop.Shipment{Carrier: pick(w, carriers), Tracking: fmt.Sprintf("%010d", w.IntN(1e10))})
	}
	w.invoice(n, id, payment, shipped)
}

func (w *world) invoice(n int, order uuid.UUID, payment shop.Payment, at int) {
	id := w.id()
	w.tell(at+5, shop.InvoiceIssued.Type(), id,
		shop.Invoice{OrderID: order.String(), Number: fmt.Sprintf("2026-%05d", n+1), Cents: payment.Cents})
	if w.chance(95) {
		w.tell(at+6+w.IntN(14*day), shop.InvoiceSettled.Type(), id, payment)
	}
}

// chance is true in that many of a hundred cases.
func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

// id is a random UUID, version 4, but from the world's own source.
func (w *world) id() (id uuid.UUID) {
	for i := range id {
		id[i] = byte(w.IntN(256))
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

func pick[T any](w *world, from []T) T { return from[w.IntN(len(from))] }
