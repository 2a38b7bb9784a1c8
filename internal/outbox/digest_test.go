package outbox

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A downstream that is out must not fill the log.
func TestDigestSaysItOnceAndCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := &journal{}
		d := digest{slog.New(slog.NewTextHandler(log, nil)), map[tallyKey]*tally{}}
		one := func(eventType, outcome string) {
			d.note(verdict{Claimed{Envelope: Envelope{EventType: eventType, ID: uuid.New()}}, Result{Error: "hunter2"}}, outcome)
		}
		for range 500 {
			one("a", "failed")
		}
		one("a", "discarded")
		one("b", "failed")
		for _, quiet := range []string{"processed", "repeated", "release", "settled"} {
			one("a", quiet)
		}
		if n := log.lines(); n != 3 {
			t.Fatalf("%d lines, want one per type and outcome:\n%s", n, log)
		}
		elapse(digestPeriod)
		one("a", "failed")
		if log.lines("event_type=a", "events=500") != 1 || log.lines("event_type=a", "events=1", "failed") != 1 || log.lines("level=ERROR", "discarded") != 1 {
			t.Errorf("the later line does not count the 499 before it:\n%s", log)
		}
		if log.lines("hunter2") != 0 {
			t.Errorf("the log repeats what a handler said:\n%s", log)
		}
	})
}

func TestStreakSaysBeginningReminderAndEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := &journal{}
		logger := slog.New(slog.NewTextHandler(log, nil))
		var s streak
		for _, err := range []error{nil, io.EOF, io.EOF, io.EOF, nil, nil, io.EOF} {
			s.note(logger, err, "trouble")
		}
		if log.lines("WARN", "trouble", "EOF") != 2 || log.lines("INFO", "no longer") != 1 || log.lines() != 3 {
			t.Errorf("\n%s", log)
		}
		for range 600 {
			elapse(time.Second)
			s.note(logger, io.EOF, "trouble")
		}
		if n := log.lines("WARN"); n != 12 {
			t.Errorf("%d warnings, want one a minute", n)
		}
	})
}
