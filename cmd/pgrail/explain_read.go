package main

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
)

func (c explainCmd) read(a *app, tx pgx.Tx) (*outbox.Explanation, error) {
	id, of, err := c.target()
	if err != nil {
		return nil, err
	}
	var e *outbox.Explanation
	if of == nil {
		e, err = outbox.Explain(a.ctx, tx, id)
	} else {
		e, err = outbox.ExplainAggregate(a.ctx, tx, of.kind, of.id)
	}
	switch {
	case err != nil || e != nil:
		return e, err
	case of == nil:
		return nil, noEvent(id)
	}
	return nil, fail(exitNotFound, "no event of %s waits\nIts events are all processed or discarded, or there are none.", of)
}

// complete adds to an explanation what the rows around it tell.
func (c explainCmd) complete(a *app, q *db.Queries, e *outbox.Explanation) (explanation, error) {
	full := explanation{
		EventID: e.EventID.String(), EventType: e.EventType, Status: e.Status, Attempts: e.Attempts,
		DueInSeconds: seconds(e.DueIn), Reason: string(e.Reason), WaitingBehind: e.WaitingBehind, Behind: []neighbour{},
	}
	event, err := readEvent(a, q, e.EventID)
	if err != nil {
		return full, err
	}
	full.Aggregate, full.Error = event.Aggregate, event.Error
	workers, err := q.OperateWorkers(a.ctx)
	if err != nil {
		return full, err
	}
	full.Holder = heldBy(event.HeldBy, e.ClaimedAt, workers)
	if e.Blocker != nil {
		if full.Blocker, err = readBlocker(a, q, e.Blocker, workers); err != nil {
			return full, err
		}
	}
	if full.Halt, err = readHalt(a, q, event.Aggregate); err != nil {
		return full, err
	}
	behind, err := q.OperateBehind(a.ctx, db.OperateBehindParams{EventID: e.EventID, AtMost: int32(c.Behind)})
	for _, b := range behind {
		full.Behind = append(full.Behind, neighbour{b.ID.String(), b.EventType, b.Status, int(b.Attempts)})
	}
	full.Advice = full.advise(workers)
	return full, err
}

func readBlocker(a *app, q *db.Queries, b *outbox.Blocker, workers []db.OperateWorkersRow) (*blocker, error) {
	rows, err := q.OperateEvents(a.ctx, db.OperateEventsParams{EventIds: []string{b.EventID.String()}})
	full := &blocker{
		neighbour: neighbour{b.EventID.String(), b.EventType, b.Status, b.Attempts}, DueInSeconds: seconds(b.DueIn),
	}
	for _, row := range rows {
		full.Error, full.Holder = row.Error, heldBy(row.HeldBy, b.ClaimedAt, workers)
	}
	return full, err
}

func readHalt(a *app, q *db.Queries, of string) (*halt, error) {
	var agg aggregate
	if err := agg.UnmarshalText([]byte(of)); err != nil {
		return nil, err
	}
	rows, err := q.OperateHalt(a.ctx, db.OperateHaltParams{AggregateType: agg.kind, AggregateID: agg.id})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &halt{rows[0].EventID.String(), rows[0].EventType, rows[0].Reason, rows[0].HaltedAt.UTC()}, nil
}

// heldBy is nil for what was never claimed.
func heldBy(id *uuid.UUID, claimedAt string, workers []db.OperateWorkersRow) *holder {
	if claimedAt == "" {
		return nil
	}
	h := &holder{Since: claimedAt}
	if id != nil {
		h.ID = id.String()
		h.Seen = slices.ContainsFunc(workers, func(w db.OperateWorkersRow) bool { return w.Holder == *id })
	}
	return h
}

func (h *holder) String() string {
	switch {
	case h.ID == "":
		return "at " + h.Since
	case h.Seen:
		return fmt.Sprintf("at %s by worker %s, which is alive", h.Since, h.ID)
	}
	return fmt.Sprintf("at %s by worker %s, which is not seen", h.Since, h.ID)
}
