package outbox

import (
	"log/slog"
	"time"
)

// reminder is how often a failure that goes on is logged again.
const reminder = time.Minute

// streak logs the first of a row of failures, a reminder now and then, and the end of the row, so that an outage does not
// fill the log.
type streak struct{ said time.Time }

func (s *streak) note(log *slog.Logger, err error, message string) {
	switch {
	case err == nil && !s.said.IsZero():
		log.Info(message + ": no longer")
		s.said = time.Time{}
	case err == nil:
	case time.Since(s.said) < reminder:
		log.Debug(message, "error", loggable(err))
	default:
		log.Warn(message, "error", loggable(err))
		s.said = time.Now()
	}
}
