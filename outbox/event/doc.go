// Package event holds what producers and consumers of an event share: its
// definition, the envelope it arrives in, and the ways a handler can end.
//
// It compiles without a database driver, so that services can publish their
// definitions in a package of their own and import each other's for free.
// Start with [MustDefine], which binds an event type to its payload, and
// [Definition.New], which drafts an event of it:
//
//	var OrderPlaced = event.MustDefine[Order]("order.placed")
//
//	draft := OrderPlaced.New("order", order.ID, "order.placed/"+order.ID.String(), order)
package event
