package outbox

import (
	"context"
	"fmt"

	"github.com/openlup/pgrail/internal/db"
	"github.com/openlup/pgrail/outbox/event"
)

// OnDiscard says what a discarded event does to the later ones of its aggregate.
type OnDiscard string

// The two ways: go on without it, or stand still until an operator redrives it or lets the aggregate resume.
const (
	Continue OnDiscard = "continue"
	Halt     OnDiscard = "halt"
)

// Policy holds limits that belong to an event type, whoever claims it. A type without a policy goes by the
// worker's configuration and continues past discarded events.
type Policy struct {
	// EventType the policy is for; not blank.
	EventType string
	// MaxAttempts overrules the workers' setting; 1 to 20, or 0 to leave it to them.
	MaxAttempts int
	// MaxSnoozes is how often an event may be snoozed before it is discarded with reason "max_snoozes"; 1 to 100000,
	// or 0 to leave it to the workers.
	MaxSnoozes int
	// OnDiscard is [Continue] when empty.
	OnDiscard OnDiscard
}

// SetPolicy writes the policy of an event type, replacing an earlier one. It counts from the next claim on.
func SetPolicy(ctx context.Context, tx DB, p Policy) error {
	if err := p.check(); err != nil {
		return err
	}
	params := db.OutboxSetPolicyParams{EventType: p.EventType, OnDiscard: string(p.OnDiscard)}
	if p.OnDiscard == "" {
		params.OnDiscard = string(Continue)
	}
	if p.MaxAttempts != 0 {
		params.MaxAttempts = ptr(int32(p.MaxAttempts))
	}
	if p.MaxSnoozes != 0 {
		params.MaxSnoozes = ptr(int32(p.MaxSnoozes))
	}
	return translate("set policy", on(tx).OutboxSetPolicy(ctx, params))
}

// check refuses what is out of range.
func (p Policy) check() error {
	if err := checkTexts("EventType", p.EventType); err != nil {
		return err
	}
	switch {
	case len(p.EventType) > event.MaxTypeBytes:
		return &ConfigError{"EventType", fmt.Sprintf("%d bytes", len(p.EventType)), fmt.Sprintf("at most %d bytes", event.MaxTypeBytes)}
	case p.MaxAttempts < 0 || p.MaxAttempts > maxAttempts:
		return &ConfigError{"MaxAttempts", p.MaxAttempts, fmt.Sprintf("0 to %d", maxAttempts)}
	case p.MaxSnoozes < 0 || p.MaxSnoozes > maxSnoozes:
		return &ConfigError{"MaxSnoozes", p.MaxSnoozes, fmt.Sprintf("0 to %d", maxSnoozes)}
	case p.OnDiscard != "" && p.OnDiscard != Continue && p.OnDiscard != Halt:
		return &ConfigError{"OnDiscard", p.OnDiscard, `"continue" or "halt"`}
	}
	return nil
}

const (
	maxAttempts = 20
	maxSnoozes  = 100_000
)
