package main

import (
	"strings"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/outbox"
)

// outcome is what became of one event.
type outcome struct {
	EventID uuid.UUID `json:"event_id"`
	Outcome string    `json:"outcome"`
}

// outcomes is the result of a run: how many came out as wished, and each.
type outcomes struct {
	Done   int       `json:"done"`
	Events []outcome `json:"events"`
}

// portion is how many events one transaction changes, so that none holds its locks for long.
const portion = 500

// inPortions hands ids to f in order, and counts and reports what becomes of them.
func (a *app) inPortions(ids []uuid.UUID, wished string, f func([]uuid.UUID) ([]outcome, error)) error {
	all := outcomes{Events: []outcome{}}
	progress := a.progress(often, "%d of %d "+wished)
	var failed error
	for start := 0; start < len(ids) && failed == nil; start += portion {
		var some []outcome
		some, failed = f(ids[start:min(start+portion, len(ids))])
		for _, o := range some {
			if o.Outcome == wished {
				all.Done++
			}
		}
		all.Events = append(all.Events, some...)
		progress(all.Done, len(ids))
	}
	if err := a.print(all, func(t *table) { all.show(t, wished) }); err != nil {
		return err
	}
	return all.verdict(failed, wished)
}

func (o outcomes) show(t *table, wished string) {
	t.line("%d %s", o.Done, wished)
	if o.Done < len(o.Events) {
		t.row("EVENT", "NOT "+strings.ToUpper(wished)+", BECAUSE")
	}
	for _, e := range o.Events {
		if e.Outcome != wished {
			t.row(e.EventID, because(e.Outcome))
		}
	}
}

// verdict is the exit status: all, some, none, or broken off.
func (o outcomes) verdict(failed error, wished string) error {
	missing := 0
	for _, e := range o.Events {
		if e.Outcome == string(outbox.RedriveNotFound) {
			missing++
		}
	}
	switch {
	case failed != nil:
		return failed
	case len(o.Events) > 0 && missing == len(o.Events):
		return fail(exitNotFound, "none of these events exists")
	case o.Done < len(o.Events):
		return fail(exitFindings, "not %s: %s of %d", wished, counted(len(o.Events)-o.Done, "event"), len(o.Events))
	}
	return nil
}

func because(outcome string) string {
	return map[string]string{
		"in_flight":     "a worker is handling it, or one that stands behind it: try again when that has ended",
		"not_discarded": "it is not discarded",
		"at_rest":       "it is processed or discarded already",
		"not_found":     "there is no such event",
	}[outcome]
}
