package outbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/db"
)

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
	if err := checkLimit(limit, anyLimit); err != nil {
		return nil, err
	}
	rows, err := on(tx).OutboxStats(ctx, db.OutboxStatsParams{AtMost: int32(limit)})
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

const maxRedrive = 1000

// Redrive reopens discarded events, at most 1000 a call, in their old place of the order and with fresh attempts. What was
// handled after them stays handled: their effects now come later than those. By whom and why, both not blank, are
// recorded in the event's metadata. An aggregate halted by such an event moves again.
func Redrive(ctx context.Context, tx DB, by, reason string, ids ...uuid.UUID) (map[uuid.UUID]RedriveOutcome, error) {
	if len(ids) > maxRedrive {
		return nil, &ConfigError{"ids", fmt.Sprintf("%d long", len(ids)), fmt.Sprintf("at most %d", maxRedrive)}
	}
	if err := checkTexts("by", by, "reason", reason); err != nil {
		return nil, err
	}
	rows, err := on(tx).OutboxRedrive(ctx, db.OutboxRedriveParams{EventIds: texts(ids), ByWhom: by, Reason: reason})
	outcomes := make(map[uuid.UUID]RedriveOutcome, len(rows))
	for _, row := range rows {
		outcomes[row.EventID] = RedriveOutcome(row.Outcome)
	}
	return outcomes, translate("redrive", err)
}

// Discarded lists up to limit discarded events of the given types, at least one, oldest first.
func Discarded(ctx context.Context, tx DB, limit int, types ...string) ([]uuid.UUID, error) {
	if len(types) == 0 {
		return nil, &ConfigError{"types", "empty", "at least one event type"}
	}
	for _, t := range types {
		if err := checkTexts("types", t); err != nil {
			return nil, err
		}
	}
	if err := checkLimit(limit, anyLimit); err != nil {
		return nil, err
	}
	ids, err := on(tx).OutboxDiscardedIDs(ctx, db.OutboxDiscardedIDsParams{EventTypes: types, AtMost: int32(limit)})
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
	if err := checkLimit(limit, anyLimit); err != nil {
		return nil, err
	}
	rows, err := on(tx).OutboxHaltedAggregates(ctx, db.OutboxHaltedAggregatesParams{AtMost: int32(limit)})
	halted := make([]HaltedAggregate, 0, len(rows))
	for _, row := range rows {
		row.HaltedAt = row.HaltedAt.UTC()
		halted = append(halted, HaltedAggregate(row))
	}
	return halted, translate("list halted aggregates", err)
}

// Resume lets a halted aggregate move again, past the event that stopped it; false when it was not halted.
func Resume(ctx context.Context, tx DB, aggregateType string, aggregateID uuid.UUID) (bool, error) {
	if err := checkTexts("aggregateType", aggregateType); err != nil {
		return false, err
	}
	resumed, err := on(tx).OutboxResumeAggregate(ctx, db.OutboxResumeAggregateParams{
		AggregateType: aggregateType, AggregateID: aggregateID,
	})
	return resumed, translate("resume aggregate", err)
}

// maxPrune is how many events of a kind one call deletes at most.
const maxPrune = 10_000

// Prune deletes processed events that were processed longer than keep ago, and, when keepDiscarded is positive, discarded
// events written longer than that ago; oldest first, up to limit (1 to 10000) of each. Both are at most 100 years. It
// returns how many it deleted; call it until that is 0. A pruned event's idempotency key is free again, so keep is the
// window in which duplicates are recognised.
func Prune(ctx context.Context, tx DB, keep, keepDiscarded time.Duration, limit int) (int, error) {
	if err := cmp.Or(checkAge("keep", keep), checkAge("keepDiscarded", keepDiscarded), checkLimit(limit, maxPrune)); err != nil {
		return 0, err
	}
	params := db.OutboxPruneParams{KeepSeconds: keep.Seconds(), AtMost: int32(limit)}
	if keepDiscarded > 0 {
		params.KeepDiscardedSeconds = ptr(keepDiscarded.Seconds())
	}
	deleted, err := on(tx).OutboxPrune(ctx, params)
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
