package outbox

import "log/slog"

// streak logs the first of a row of failures and the end of the row, so that an outage does not fill the log.
type streak struct{ failing bool }

func (s *streak) note(log *slog.Logger, err error, message string) {
	switch {
	case err != nil && s.failing:
		log.Debug(message, "error", err)
	case err != nil:
		log.Warn(message, "error", err)
	case s.failing:
		log.Info(message + ": no longer")
	}
	s.failing = err != nil
}
