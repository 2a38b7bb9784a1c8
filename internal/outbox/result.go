package outbox

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// Outcome is what becomes of a claimed event.
type Outcome string

// The outcomes; the first four are words of the SQL protocol.
const (
	Processed Outcome = "processed"
	Retry     Outcome = "retry"
	Discard   Outcome = "discard"
	Snooze    Outcome = "snooze"
	// Release gives the event back as if it had never been claimed.
	Release Outcome = "release"
	// Settled means that the handler's own transaction has ended the event.
	Settled Outcome = "settled"
	// Lost means that the handler has found its event to be another's by now.
	Lost Outcome = outcomeLost
)

// Result is the verdict on one claimed event.
type Result struct {
	Outcome Outcome
	// Reason of a discard, as recorded; blank means permanent_error.
	Reason string
	Error  string
	// Delay of a retry or snooze; negative means the worker's own.
	Delay time.Duration
	// Unavailable says that the whole type would fail alike.
	Unavailable bool
}

// tells is what the result says about the downstream.
func (r Result) tells() health {
	switch {
	case r.Unavailable:
		return out
	case r.Outcome == Release || r.Outcome == Lost:
		return unknown
	}
	return well
}

// maxError is how much of an error text is kept, in characters, as in the SQL.
const maxError = 2000

// cleanError makes a handler's error text storable, so that an acknowledgement is never lost to it.
func cleanError(text string) string {
	// No character has more than four bytes: the rest of a very long text need not be looked at.
	text = text[:min(len(text), 4*maxError)]
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(text); len(runes) > maxError {
		return string(runes[:maxError])
	}
	return text
}

// maxStack keeps the frames next to a panic and drops the rest.
const maxStack = 1200

// guarded runs fn and turns a panic or runtime.Goexit into a failure. Goexit cannot be stopped: it ends
// the goroutine after deliver has been called.
func guarded(fn func() Result, deliver func(Result)) {
	result := Result{Outcome: Retry, Delay: -1, Error: "handler left its goroutine (runtime.Goexit)"}
	defer func() {
		if cause := recover(); cause != nil {
			stack := string(debug.Stack())
			if len(stack) > maxStack {
				stack = stack[:maxStack]
			}
			result.Error = fmt.Sprintf("panic: %v\n%s", cause, stack)
		}
		deliver(result)
	}()
	result = fn()
}
