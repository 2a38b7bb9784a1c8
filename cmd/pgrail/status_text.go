package main

import (
	"strings"
	"time"

	"github.com/openlup/pgrail/outbox"
)

func (c statusCmd) show(s status, t *table) {
	if len(s.Types) == 0 {
		t.line("No event waits, and none was processed within the last minute.")
	} else {
		t.row("TYPE", "WAITING", "DUE", "IN FLIGHT", "FAILED", "BLOCKED", "DISCARDED", "OLDEST DUE", "PER SECOND", "NOTE")
	}
	for _, r := range s.Types {
		n := func(count int64) string { return capped(count, c.Limit) }
		t.row(r.EventType, n(r.Waiting), n(r.Due), n(r.InFlight), n(r.Failed), n(r.Blocked), n(r.Discarded),
			orDash(r.OldestAgeSeconds > 0, span(inSeconds(r.OldestAgeSeconds))), rate(r.PerSecond), r.note())
	}
	showWorkers(s.Workers, t)
	if len(s.Halted) > 0 {
		t.line("\nHalted aggregates: each stands still because of a discarded event.")
		t.row("AGGREGATE", "SINCE", "EVENT", "TYPE", "REASON")
	}
	for _, h := range s.Halted {
		t.row(h.Aggregate, h.HaltedAt.Format(time.RFC3339), h.EventID, h.EventType, h.Reason)
	}
	if len(s.Blocked) > 0 {
		t.line("\nBlocked aggregates: in each, younger events wait behind an old one.")
		t.row("AGGREGATE", "BEHIND", "EVENT", "TYPE", "AGE", "ATTEMPTS", "WHY IT DOES NOT MOVE")
	}
	for _, b := range s.Blocked {
		t.row(b.Aggregate, b.WaitingBehind, b.EventID, b.EventType, span(inSeconds(b.AgeSeconds)), b.Attempts, b.why())
	}
}

func showWorkers(workers []workerStatus, t *table) {
	if len(workers) == 0 {
		t.line("\nNo worker is seen. Those behind a transaction pooler never are.")
		return
	}
	t.line("")
	t.row("WORKER", "UP", "TYPES")
	for _, w := range workers {
		t.row(w.ID, span(inSeconds(w.UpSeconds)), strings.Join(w.EventTypes, " "))
	}
}

func (r typeStatus) note() string {
	switch {
	case r.Dormant:
		return "dormant"
	case r.Unclaimed:
		return "nobody claims it"
	}
	return ""
}

func (b blockedStatus) why() string {
	if b.Reason == string(outbox.ReasonNotDue) {
		return b.Status + ", due " + due(inSeconds(b.DueInSeconds))
	}
	return reasons[outbox.Reason(b.Reason)]
}
