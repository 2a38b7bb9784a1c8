package outbox

import (
	"context"
	"log/slog"
	"time"
)

// digestPeriod is how often the log names an event of one type and outcome; the table names them all.
const digestPeriod = 10 * time.Second

// digest logs what did not go well: at once when it is new, and then in numbers, so that a downstream that is
// out does not fill the log. It does not repeat what handlers say, who may quote anything: that is stored with the event.
type digest struct {
	log     *slog.Logger
	tallies map[tallyKey]*tally
}

type tallyKey struct{ eventType, outcome string }

type tally struct {
	since int
	quiet time.Time
}

// remarks are the outcomes worth a line.
var remarks = map[string]struct {
	level slog.Level
	text  string
}{
	"failed":    {slog.LevelWarn, "outbox: event failed and will be tried again"},
	"snoozed":   {slog.LevelInfo, "outbox: event snoozed"},
	"discarded": {slog.LevelError, "outbox: event discarded"},
	outcomeLost: {slog.LevelWarn, "outbox: outcome came after the lease was lost, so the event may be handled again"},
	"missed":    {slog.LevelWarn, "outbox: outcome came after the lease was lost, so the event may be handled again"},
}

func (d *digest) note(v verdict, outcome string) {
	remark, worth := remarks[outcome]
	if !worth {
		return
	}
	key := tallyKey{v.event.EventType, outcome}
	one := d.tallies[key]
	if one == nil {
		one = &tally{}
		d.tallies[key] = one
	}
	one.since++
	if time.Now().Before(one.quiet) {
		return
	}
	d.log.Log(context.Background(), remark.level, remark.text, "event_type", v.event.EventType, "event_id", v.event.ID,
		"attempt", v.event.Attempt, "events", one.since)
	*one = tally{quiet: time.Now().Add(digestPeriod)}
}
