package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/internal/operate"
)

type tailCmd struct {
	Type      string     `placeholder:"TYPE" help:"Follow events of this type only."`
	Aggregate *aggregate `placeholder:"TYPE/ID" help:"Follow events of this aggregate only."`
	Every     days       `default:"500ms" help:"Look this often; at least 50ms. Of what happens to an event in between, only the last is shown."`
	For       days       `help:"End after this long; without it, when interrupted."`
}

type moveLine struct {
	At        time.Time `json:"at"`
	Move      string    `json:"move"`
	EventID   string    `json:"event_id"`
	EventType string    `json:"event_type"`
	Aggregate string    `json:"aggregate"`
	Attempts  int       `json:"attempts"`
	DueIn     float64   `json:"due_in_seconds,omitempty"`
	Detail    string    `json:"detail,omitempty"`
}

// Validate is called by kong.
func (c tailCmd) Validate() error {
	if time.Duration(c.Every) < 50*time.Millisecond {
		return fail(exitUse, "--every must be at least 50ms")
	}
	return nil
}

func (c tailCmd) Run(a *app) error {
	return a.withQueries(func(q *db.Queries) error {
		err := c.follow(a, operate.NewFollower(q))
		if a.ctx.Err() != nil {
			return nil // how a person ends it
		}
		return err
	})
}

func (c tailCmd) follow(a *app, f *operate.Follower) error {
	var end <-chan time.Time
	if c.For > 0 {
		end = time.After(time.Duration(c.For))
	}
	tick := time.NewTicker(time.Duration(c.Every))
	defer tick.Stop()
	greeted, told := false, false
	for {
		moves, err := f.Look(a.ctx)
		if err != nil {
			return err
		}
		if !greeted && end == nil {
			a.note("Events show here as they move. Ctrl-C ends this.")
		}
		greeted = true
		for _, m := range moves {
			if err := c.write(a, m); err != nil {
				return err
			}
		}
		if f.Full && !told {
			told = true
			a.note("pgrail: more is going on than is followed; some moves will be missing")
		}
		select {
		case <-tick.C:
		case <-end:
			return nil
		case <-a.ctx.Done():
			return nil
		}
	}
}

func (c tailCmd) write(a *app, m operate.Move) error {
	of := aggregate{m.AggregateType, m.AggregateID}
	if c.Type != "" && c.Type != m.EventType || c.Aggregate != nil && *c.Aggregate != of {
		return nil
	}
	now := time.Now()
	if a.json {
		return json.NewEncoder(a.out).Encode(moveLine{now.UTC(), m.What, m.ID.String(), m.EventType, of.String(), m.Attempts, seconds(m.DueIn), m.Detail})
	}
	detail := m.Detail
	if m.What == "failed" {
		detail = "attempt " + fmt.Sprint(m.Attempts) + ", due " + due(m.DueIn) + ": " + m.Detail
	}
	_, err := fmt.Fprintf(a.out, "%s  %-9s  %s  %s  %s  %s\n", now.Format(time.TimeOnly), m.What, m.ID, cell(m.EventType), cell(of.String()), cell(detail))
	return err
}
