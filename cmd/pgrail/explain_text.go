package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox"
)

// advise says what to do, in commands where there are any.
func (e explanation) advise(workers []db.OperateWorkersRow) string {
	switch outbox.Reason(e.Reason) {
	case outbox.ReasonProcessed:
		return "Nothing is to be done."
	case outbox.ReasonDiscarded:
		return "To try it again: pgrail redrive " + e.EventID + " --reason=WHY"
	case outbox.ReasonInFlight:
		return "Wait for the handler. Should its worker be gone, the event is handed out again in " + span(inSeconds(e.DueInSeconds)) + " at the latest."
	case outbox.ReasonHalted:
		return "To try the event that halted it again: pgrail redrive " + e.Halt.EventID + " --reason=WHY\nTo go on without that one: pgrail resume " + e.Aggregate
	case outbox.ReasonBlocked:
		return "See why that one does not move: pgrail explain " + e.Blocker.EventID
	case outbox.ReasonNotDue:
		return "Wait until it is due. To give it up: pgrail discard " + e.EventID + " --reason=WHY"
	}
	return "Nothing is in its way: the next worker that takes " + e.EventType + " gets it. " + e.taken(workers)
}

func (e explanation) taken(workers []db.OperateWorkersRow) string {
	if slices.ContainsFunc(workers, func(w db.OperateWorkersRow) bool { return slices.Contains(w.EventTypes, e.EventType) }) {
		return "One that does is running."
	}
	return "None that does is seen; those behind a transaction pooler never are."
}

func (e explanation) show(t *table) {
	t.row("event", e.EventID)
	t.row("type", e.EventType)
	t.row("aggregate", e.Aggregate)
	t.row("status", e.Status)
	t.row("attempts", e.Attempts)
	if e.Reason == string(outbox.ReasonInFlight) {
		t.row("lease", "ends in "+span(inSeconds(e.DueInSeconds)))
	} else if e.Status != "processed" && e.Status != "discarded" {
		t.row("due", due(inSeconds(e.DueInSeconds)))
	}
	if e.Holder != nil {
		t.row("last claimed", e.Holder)
	}
	if e.Error != "" {
		t.row("error", e.Error)
	}
	t.row("why", e.why())
	e.showBehind(t)
	t.line("\n%s", e.Advice)
}

func (e explanation) why() string {
	switch outbox.Reason(e.Reason) {
	case outbox.ReasonHalted:
		return fmt.Sprintf("halted since %s: %s %s was discarded (%s)", e.Halt.Since.Format(time.RFC3339), e.Halt.EventType, e.Halt.EventID, e.Halt.Reason)
	case outbox.ReasonBlocked:
		return "blocked by " + e.Blocker.String()
	case outbox.ReasonDiscarded:
		if e.Halt != nil && e.Halt.EventID == e.EventID {
			return "discarded, and its aggregate is halted by that"
		}
	}
	return reasons[outbox.Reason(e.Reason)]
}

func (b *blocker) String() string {
	text := fmt.Sprintf("%s %s: %s, %s, ", b.EventType, b.EventID, b.Status, counted(b.Attempts, "attempt"))
	if b.Status == "processing" && b.DueInSeconds > 0 {
		text += "its lease ends in " + span(inSeconds(b.DueInSeconds))
	} else {
		text += "due " + due(inSeconds(b.DueInSeconds))
	}
	if b.Holder != nil {
		text += ", last claimed " + b.Holder.String()
	}
	if b.Error != "" {
		text += ", error: " + b.Error
	}
	return text
}

func (e explanation) showBehind(t *table) {
	if e.WaitingBehind == 0 {
		return
	}
	t.line("\nBehind it, %s:", counted(e.WaitingBehind, "event"))
	for _, b := range e.Behind {
		t.row(b.EventID, b.EventType, b.Status, counted(b.Attempts, "attempt"))
	}
	if more := e.WaitingBehind - len(e.Behind); more > 0 {
		t.line("and %d more", more)
	}
}
