package outbox

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Policy is how failures are paced. The zero value is not usable.
type Policy struct {
	MaxAttempts int
	MaxSnoozes  int
	BaseDelay   time.Duration
	MaxDelay    time.Duration
	Snooze      time.Duration
}

// Config is a checked configuration: the public package refuses what is out of range.
type Config struct {
	Policy
	// Types are claimed; Known are another consumer's and hold nothing up.
	Types, Known []string
	Concurrency  int
	Lease        time.Duration
	PollInterval time.Duration
	StopTimeout  time.Duration
	// Pause is how long a type rests when its downstream is out, the first time.
	Pause time.Duration
	// Retain is how long events at rest are kept.
	Retain Retention
	Logger *slog.Logger
	// Settled, if set, is told what became of each event, after the database has taken it.
	Settled  func(Claimed, string)
	Observer Observer
}

// Handle runs the handler of an event's type. The context's cause says why it ended.
type Handle func(ctx context.Context, event Claimed) Result

// Causes of a handler's context.
var (
	ErrStopping  = errors.New("outbox: the worker is stopping")
	ErrLeaseLost = errors.New("outbox: the lease of the event is lost")
)

// maxBatch is how many events one claim asks for at most, and one acknowledgement carries.
const maxBatch = 1000
