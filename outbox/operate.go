package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/db"
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
	// or 0 for no limit.
	MaxSnoozes int
	// OnDiscard is [Continue] when empty.
	OnDiscard OnDiscard
}

// SetPolicy writes the policy of an event type, replacing an earlier one. It counts from the next claim on.
func SetPolicy(ctx context.Context, tx DB, p Policy) error {
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
	return translate("set policy", db.New(tx).OutboxSetPolicy(ctx, params))
}

// TypeStats counts the events of one type. Counts stop at the cap given to [Stats].
type TypeStats struct {
	EventType string
	// Ready are due; Later wait for their time, scheduled or after a failure; InFlight are being handled; Parked wait
	// behind an older event of their aggregate; Discarded are given up.
	Ready, Later, InFlight, Parked, Discarded int
	// OldestAge is the age of the oldest event that is due: what nobody handles keeps growing old here.
	OldestAge time.Duration
	// Dormant types are listed in outbox_dormant_event_types and hold nothing up.
	Dormant bool
}

// Stats returns figures for every type that has events which are not processed. Its cost does not grow with the
// history, and each figure is counted up to limit only (at least 1; 10000 is a good value).
func Stats(ctx context.Context, tx DB, limit int) ([]TypeStats, error) {
	rows, err := db.New(tx).OutboxStats(ctx, db.OutboxStatsParams{AtMost: int32(limit)})
	stats := make([]TypeStats, 0, len(rows))
	for _, r := range rows {
		stats = append(stats, TypeStats{
			EventType: r.EventType, Ready: int(r.Ready), Later: int(r.Later), InFlight: int(r.InFlight),
			Parked: int(r.Parked), Discarded: int(r.Discarded), OldestAge: inSeconds(r.OldestAgeSeconds), Dormant: r.Dormant,
		})
	}
	return stats, translate("stats", err)
}

// RedriveOutcome says what became of an event that was to be redriven.
type RedriveOutcome string

// The outcomes of [Redrive].
const (
	Redriven RedriveOutcome = "redriven"
	// RedriveInFlight: refused, as a younger event of the aggregate is being handled right now; try again later.
	RedriveInFlight RedriveOutcome = "in_flight"
	// RedriveNotDiscarded and RedriveNotFound: there is nothing to redrive.
	RedriveNotDiscarded RedriveOutcome = "not_discarded"
	RedriveNotFound     RedriveOutcome = "not_found"
)

// Redrive reopens discarded events, at most 1000 a call, in their old place of the order and with fresh attempts. What was
// handled after them stays handled: their effects now come later than those. By whom and why, both not blank, are
// recorded in the event's metadata. An aggregate halted by such an event moves again.
func Redrive(ctx context.Context, tx DB, by, reason string, ids ...uuid.UUID) (map[uuid.UUID]RedriveOutcome, error) {
	if len(ids) > 1000 {
		return nil, &ConfigError{"ids", fmt.Sprintf("%d long", len(ids)), "at most 1000"}
	}
	if by == "" || reason == "" {
		return nil, &ConfigError{"by, reason", "blank", "who redrives, and why"}
	}
	rows, err := db.New(tx).OutboxRedrive(ctx, db.OutboxRedriveParams{EventIds: texts(ids), ByWhom: by, Reason: reason})
	outcomes := make(map[uuid.UUID]RedriveOutcome, len(rows))
	for _, row := range rows {
		outcomes[row.EventID] = RedriveOutcome(row.Outcome)
	}
	return outcomes, translate("redrive", err)
}

// Discarded lists up to limit discarded events of the given types, oldest first.
func Discarded(ctx context.Context, tx DB, limit int, types ...string) ([]uuid.UUID, error) {
	ids, err := db.New(tx).OutboxDiscardedIDs(ctx, db.OutboxDiscardedIDsParams{EventTypes: types, AtMost: int32(limit)})
	return ids, translate("list discarded", err)
}

// HaltedAggregate stands still because an event whose type has [Halt] was discarded.
type HaltedAggregate struct {
	AggregateType string
	AggregateID   uuid.UUID
	// EventID and EventType of the discarded event, and the reason of its discard.
	EventID   uuid.UUID
	EventType string
	Reason    string
	HaltedAt  time.Time
}

// Halted lists up to limit halted aggregates, the longest halted first.
func Halted(ctx context.Context, tx DB, limit int) ([]HaltedAggregate, error) {
	rows, err := db.New(tx).OutboxHaltedAggregates(ctx, db.OutboxHaltedAggregatesParams{AtMost: int32(limit)})
	halted := make([]HaltedAggregate, 0, len(rows))
	for _, row := range rows {
		row.HaltedAt = row.HaltedAt.UTC()
		halted = append(halted, HaltedAggregate(row))
	}
	return halted, translate("list halted aggregates", err)
}

// Resume lets a halted aggregate move again, past the event that stopped it; false when it was not halted.
func Resume(ctx context.Context, tx DB, aggregateType string, aggregateID uuid.UUID) (bool, error) {
	resumed, err := db.New(tx).OutboxResumeAggregate(ctx, db.OutboxResumeAggregateParams{
		AggregateType: aggregateType, AggregateID: aggregateID,
	})
	return resumed, translate("resume aggregate", err)
}

// Prune deletes processed events that were processed longer than keep ago, and, when keepDiscarded is positive, discarded
// events written longer than that ago; oldest first, up to limit (1 to 10000) of each. It returns how many it
// deleted; call it until that is 0. A pruned event's idempotency key is free again, so keep is the
// window in which duplicates are recognised.
func Prune(ctx context.Context, tx DB, keep, keepDiscarded time.Duration, limit int) (int, error) {
	params := db.OutboxPruneParams{KeepSeconds: keep.Seconds(), AtMost: int32(limit)}
	if keepDiscarded > 0 {
		params.KeepDiscardedSeconds = ptr(keepDiscarded.Seconds())
	}
	if keep < 0 || limit < 1 || limit > 10000 {
		return 0, &ConfigError{"keep, limit", fmt.Sprintf("%v, %d", keep, limit), "keep at least 0, limit 1 to 10000"}
	}
	deleted, err := db.New(tx).OutboxPrune(ctx, params)
	return int(deleted), translate("prune", err)
}

func ptr[T any](value T) *T { return &value }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func texts(ids []uuid.UUID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = id.String()
	}
	return all
}
