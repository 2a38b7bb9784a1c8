// Package outbox writes events in an application's own transaction and delivers them, in order per
// aggregate, to handlers in any number of processes.
//
// Producers call [Enqueue] with drafts made by the definitions of package event; the events
// become visible with the commit, or never. Consumers register handlers with [Handle] or [HandleTx],
// build a [Worker] with [NewWorker] and call [Worker.Run].
//
// Delivery is at least once: a handler that has effects outside the database sees an event again when its
// process dies before the acknowledgement. A handler registered with [HandleTx] has its effects in
// this database exactly once. At most one event of an aggregate is in flight at any time, and the next one
// is handed out only when it has been processed, discarded or deleted. Every error of this package that
// concerns the caller's input matches [ErrInvalid].
package outbox
