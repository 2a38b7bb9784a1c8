package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/outbox/event"
)

// Handlers maps event types to what handles them. The zero value is ready for use. It is filled before [NewWorker]
// takes it, from one goroutine.
type Handlers struct {
	byType      map[string]registration
	middlewares []event.Middleware
	errs        []error
}

// registration is an ordinary handler, or one that works in a transaction of ours.
type registration struct {
	plain event.Handler
	inTx  func(ctx context.Context, tx pgx.Tx, envelope event.Envelope) error
}

// Handle registers the handler of an event type. What its error means is told at [event.Handler]. A payload that does
// not decode never reaches it: the event is discarded at once, with reason "undecodable".
func Handle[P any](h *Handlers, of event.Definition[P], handler func(ctx context.Context, e event.Event[P]) error) {
	h.register(of.Type(), handler == nil, registration{plain: func(ctx context.Context, envelope event.Envelope) error {
		payload, err := of.Decode(envelope)
		if err != nil {
			return err
		}
		return handler(ctx, event.Event[P]{Envelope: envelope, Payload: payload})
	}})
}

// HandleTx registers a handler that runs in a transaction together with the acknowledgement of its event: when it
// returns nil both commit, otherwise neither does. Its effects in this database happen exactly once. It holds a
// connection of the pool given to [NewWorker] while it runs, and must neither commit nor roll back.
func HandleTx[P any](h *Handlers, of event.Definition[P], handler func(ctx context.Context, tx pgx.Tx, e event.Event[P]) error) {
	h.register(of.Type(), handler == nil, registration{inTx: func(ctx context.Context, tx pgx.Tx, envelope event.Envelope) error {
		payload, err := of.Decode(envelope)
		if err != nil {
			return err
		}
		return handler(ctx, tx, event.Event[P]{Envelope: envelope, Payload: payload})
	}})
}

// Use adds middleware around every handler, the first one outermost.
func (h *Handlers) Use(middlewares ...event.Middleware) {
	for _, middleware := range middlewares {
		if middleware == nil {
			h.errs = append(h.errs, &ConfigError{"Handlers", "nil as a middleware", "functions"})
			continue
		}
		h.middlewares = append(h.middlewares, middleware)
	}
}

// Types lists the registered event types in alphabetical order.
func (h *Handlers) Types() []string {
	types := make([]string, 0, len(h.byType))
	for t := range h.byType {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

// register keeps mistakes for NewWorker, so that a list of registrations needs no error handling of its own.
func (h *Handlers) register(eventType string, missing bool, r registration) {
	if h.byType == nil {
		h.byType = map[string]registration{}
	}
	switch _, taken := h.byType[eventType]; {
	case eventType == "":
		h.errs = append(h.errs, &ConfigError{"Handlers", "an undefined event type", "definitions made by event.Define"})
	case missing:
		h.errs = append(h.errs, &ConfigError{"Handlers", fmt.Sprintf("nil for %q", eventType), "a function per event type"})
	case taken:
		h.errs = append(h.errs, &ConfigError{"Handlers", fmt.Sprintf("registered twice for %q", eventType), "one handler per event type"})
	default:
		h.byType[eventType] = r
	}
}

func (h *Handlers) check() error {
	if h == nil || len(h.byType)+len(h.errs) == 0 {
		return &ConfigError{"Handlers", "empty", "at least one registered handler"}
	}
	return errors.Join(h.errs...)
}

// wrap puts the middlewares around a handler.
func (h *Handlers) wrap(handler event.Handler) event.Handler {
	for _, middleware := range slices.Backward(h.middlewares) {
		handler = middleware(handler)
	}
	return handler
}
