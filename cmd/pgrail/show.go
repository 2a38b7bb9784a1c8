package main

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/db"
)

type showCmd struct {
	ID eventID `arg:"" help:"The event's id."`
}

// shown is an event in JSON.
type shown struct {
	ID             uuid.UUID       `json:"id"`
	EventType      string          `json:"event_type"`
	Aggregate      string          `json:"aggregate"`
	IdempotencyKey string          `json:"idempotency_key"`
	Status         string          `json:"status"`
	Attempts       int32           `json:"attempts"`
	CreatedAt      time.Time       `json:"created_at"`
	AvailableAt    time.Time       `json:"available_at"`
	ProcessedAt    *time.Time      `json:"processed_at"`
	HeldBy         *uuid.UUID      `json:"held_by"`
	Error          string          `json:"error"`
	Metadata       json.RawMessage `json:"metadata"`
	Payload        json.RawMessage `json:"payload"`
}

// toShown is the one place where a row becomes what is shown.
func toShown(row db.OperateEventsRow) shown {
	s := shown{
		ID: row.ID, EventType: row.EventType, Aggregate: aggregate{row.AggregateType, row.AggregateID}.String(),
		IdempotencyKey: row.IdempotencyKey, Status: row.Status, Attempts: row.Attempts,
		CreatedAt: row.CreatedAt.UTC(), AvailableAt: row.AvailableAt.UTC(), HeldBy: row.HeldBy,
		Error: row.Error, Metadata: row.Metadata, Payload: row.Payload,
	}
	if row.ProcessedAt != nil {
		at := row.ProcessedAt.UTC()
		s.ProcessedAt = &at
	}
	return s
}

func (c showCmd) Run(a *app) error {
	return a.withQueries(func(q *db.Queries) error {
		event, err := readEvent(a, q, uuid.UUID(c.ID))
		if err != nil {
			return err
		}
		return a.print(event, event.show)
	})
}

func readEvent(a *app, q *db.Queries, id uuid.UUID) (shown, error) {
	rows, err := q.OperateEvents(a.ctx, db.OperateEventsParams{EventIds: []string{id.String()}})
	if err != nil {
		return shown{}, err
	}
	if len(rows) == 0 {
		return shown{}, noEvent(id)
	}
	return toShown(rows[0]), nil
}

func noEvent(id uuid.UUID) error {
	return fail(exitNotFound, "there is no event %s\nIt was never committed, or it has been pruned.", id)
}

func (s shown) show(t *table) {
	t.row("event", s.ID)
	t.row("type", s.EventType)
	t.row("aggregate", s.Aggregate)
	t.row("key", s.IdempotencyKey)
	t.row("status", s.Status)
	t.row("attempts", s.Attempts)
	t.row("created", s.CreatedAt.Format(time.RFC3339Nano))
	t.row("available", s.AvailableAt.Format(time.RFC3339Nano))
	if s.ProcessedAt != nil {
		t.row("processed", s.ProcessedAt.Format(time.RFC3339Nano))
	}
	if s.HeldBy != nil {
		t.row("last held by", s.HeldBy)
	}
	if s.Error != "" {
		t.row("error", s.Error)
	}
	t.line("\nmetadata %s\n\npayload %s", indented(s.Metadata), indented(s.Payload))
}

func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return string(text)
	}
	return b.String()
}
