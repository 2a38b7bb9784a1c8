package main

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

// selection names events one by one or by what they have in common.
type selection struct {
	IDs       []eventID  `arg:"" optional:"" name:"id" help:"Events, up to 1000. Instead, select them by the flags below."`
	Type      string     `placeholder:"TYPE" help:"Select events of this type."`
	Aggregate *aggregate `placeholder:"TYPE/ID" help:"Select events of this aggregate."`
	All       bool       `help:"Select whatever the other flags do not exclude."`
	Limit     int        `default:"1000" help:"Select no more than this, from 1 to 100000."`
}

// consent is what commands ask for that change much or destroy.
type consent struct {
	Yes    bool   `help:"Do it. Without this, the command shows what it would do, and refuses."`
	DryRun bool   `help:"Show what would be done, and do nothing."`
	By     string `placeholder:"NAME" help:"Who does it; recorded in the events. By default, the name of the system's user."`
	Reason string `placeholder:"WHY" help:"Why; recorded in the events."`
}

func (s selection) check(filtered bool) error {
	switch {
	case s.Limit < 1 || s.Limit > 100000:
		return fail(exitUse, "--limit must be 1 to 100000")
	case len(s.IDs) > 1000:
		return fail(exitUse, "%d events are named; at most 1000 can be", len(s.IDs))
	case len(s.IDs) > 0 && (filtered || s.All):
		return fail(exitUse, "name events, or select them by flags, not both")
	case len(s.IDs) == 0 && !filtered && !s.All:
		return fail(exitUse, "which events? Name them, select them by flags, or give --all")
	}
	return nil
}

// filter is how the queries take a selection.
func (s selection) filter() (eventType, aggregateType *string, aggregateID *uuid.UUID) {
	if s.Type != "" {
		eventType = &s.Type
	}
	if s.Aggregate != nil {
		aggregateType, aggregateID = &s.Aggregate.kind, &s.Aggregate.id
	}
	return eventType, aggregateType, aggregateID
}

// ids are the events named, each once.
func (s selection) ids() []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(s.IDs))
	for _, id := range s.IDs {
		if !slices.Contains(ids, uuid.UUID(id)) {
			ids = append(ids, uuid.UUID(id))
		}
	}
	return ids
}

func (c consent) check() error {
	if !c.DryRun && strings.TrimSpace(c.Reason) == "" {
		return fail(exitUse, "--reason is missing: why is it done?")
	}
	return nil
}

// selected is one event that would be changed, with the reason of its discard or the status in which it waits.
type selected struct {
	EventID    uuid.UUID `json:"event_id"`
	EventType  string    `json:"event_type"`
	Aggregate  string    `json:"aggregate"`
	Reason     string    `json:"reason,omitempty"`
	Status     string    `json:"status,omitempty"`
	AgeSeconds float64   `json:"age_seconds"`
}

// preview is the result of a dry run.
type preview struct {
	DryRun bool       `json:"dry_run"`
	Count  int        `json:"count"`
	Events []selected `json:"events"`
}

// previewed is how many events a dry run names.
const previewed = 20

// none ends a run of which nothing was selected.
func (s selection) none(a *app, state string) error {
	if len(s.IDs) > 0 {
		return fail(exitNotFound, "none of these events %s", state)
	}
	return a.print(preview{DryRun: true, Events: []selected{}}, func(t *table) { t.line("No event is selected.") })
}

// showPreview ends a run that changes nothing; refused if nobody asked for a dry run.
func (a *app) showPreview(c consent, would string, events []selected) error {
	p := preview{DryRun: true, Count: len(events), Events: events}
	state := "STATE"
	if would == "redrive" {
		state = "DISCARDED FOR"
	}
	err := a.print(p, func(t *table) {
		t.row("EVENT", "TYPE", "AGGREGATE", "AGE", state)
		for _, e := range events[:min(len(events), previewed)] {
			t.row(e.EventID, e.EventType, e.Aggregate, span(inSeconds(e.AgeSeconds)), e.Reason+e.Status)
		}
		if more := len(events) - previewed; more > 0 {
			t.line("and %d more", more)
		}
	})
	if err != nil || c.DryRun {
		return err
	}
	return fail(exitRefused, "this would %s %s; nothing was changed\nTo do it, add --yes.", would, counted(len(events), "event"))
}
