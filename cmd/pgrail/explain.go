package main

import (
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/db"
)

type explainCmd struct {
	What   string `arg:"" help:"An event's id, or an aggregate as TYPE/ID."`
	Behind int    `default:"10" help:"Name no more than this of those that wait behind, from 1 to 1000."`
}

// explanation is the command's result in JSON. Times to come and gone by are seconds from now.
type explanation struct {
	EventID       string      `json:"event_id"`
	EventType     string      `json:"event_type"`
	Aggregate     string      `json:"aggregate"`
	Status        string      `json:"status"`
	Attempts      int         `json:"attempts"`
	DueInSeconds  float64     `json:"due_in_seconds"`
	Reason        string      `json:"reason"`
	Error         string      `json:"error,omitempty"`
	Holder        *holder     `json:"holder,omitempty"`
	Halt          *halt       `json:"halt,omitempty"`
	Blocker       *blocker    `json:"blocker,omitempty"`
	WaitingBehind int         `json:"waiting_behind"`
	Behind        []neighbour `json:"behind"`
	Advice        string      `json:"advice"`
}

// holder is the worker that claimed an event last.
type holder struct {
	ID    string `json:"id,omitempty"`
	Since string `json:"since"`
	// Seen tells a worker that lives from one that is gone or cannot be seen.
	Seen bool `json:"seen"`
}

type halt struct {
	EventID   string    `json:"event_id"`
	EventType string    `json:"event_type"`
	Reason    string    `json:"reason"`
	Since     time.Time `json:"since"`
}

type blocker struct {
	neighbour
	DueInSeconds float64 `json:"due_in_seconds"`
	Error        string  `json:"error,omitempty"`
	Holder       *holder `json:"holder,omitempty"`
}

type neighbour struct {
	EventID   string `json:"event_id"`
	EventType string `json:"event_type"`
	Status    string `json:"status"`
	Attempts  int    `json:"attempts"`
}

// Validate is called by kong.
func (c explainCmd) Validate() error {
	if c.Behind < 1 || c.Behind > 1000 {
		return fail(exitUse, "--behind must be 1 to 1000")
	}
	_, _, err := c.target()
	return err
}

// target is an event's id, or else an aggregate.
func (c explainCmd) target() (id uuid.UUID, of *aggregate, err error) {
	if strings.ContainsRune(c.What, '/') {
		of = new(aggregate)
		return id, of, of.UnmarshalText([]byte(c.What))
	}
	id, err = parseID(c.What)
	return id, nil, err
}

func (c explainCmd) Run(a *app) error {
	return a.withConn(func(conn *pgx.Conn) error {
		var full explanation
		err := a.read(conn, func(tx pgx.Tx) error {
			e, err := c.read(a, tx)
			if err != nil {
				return err
			}
			full, err = c.complete(a, db.New(tx), e)
			return err
		})
		if err != nil {
			return err
		}
		return a.print(full, full.show)
	})
}
