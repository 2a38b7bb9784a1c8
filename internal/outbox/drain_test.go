package outbox

import (
	"context"
	"errors"
	"testing"
)

// drains is drain on a fake rail.
func drains(t *testing.T, ctx context.Context, rail *fakeRail) (told []Delivery, err error) {
	t.Helper()
	log := &journal{}
	cfg := testConfig("a")
	cfg.Logger = newLogger(log)
	err = drain(ctx, rail, cfg, processed, func(d Delivery) { told = append(told, d) })
	return told, err
}

// Case L6 in a drain: the call fails, and what its claim took without telling is free again, with its attempt.
func TestL6_DrainWhoseClaimsReplyIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		row := rail.add("a", 1)
		lost := errors.New("connection reset")
		rail.after = func(_ context.Context, call string) error {
			if call == "claim" && rail.called("claim") == 1 {
				return lost
			}
			return nil
		}
		if told, err := drains(t, t.Context(), rail); !errors.Is(err, lost) || len(told) != 0 || row.status != "pending" || row.attempts != 0 {
			t.Errorf("%v, %d deliveries; the event is %s with %d attempts", err, len(told), row.status, row.attempts)
		}
		if told, err := drains(t, t.Context(), rail); err != nil || len(told) != 1 || row.status != "processed" {
			t.Errorf("then %v, %d deliveries; the event is %s", err, len(told), row.status)
		}
	})
}

// A drain that is told to end during a claim runs no handler any more, and tells of none.
func TestDrainToldToEndDuringAClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		row := rail.add("a", 1)
		ctx, cancel := context.WithCancel(t.Context())
		rail.after = func(_ context.Context, call string) error {
			if call == "claim" {
				cancel()
			}
			return nil
		}
		told, err := drains(t, ctx, rail)
		if !errors.Is(err, context.Canceled) || len(told) != 0 || row.status != "pending" || row.attempts != 0 {
			t.Errorf("%v, %d deliveries; the event is %s with %d attempts", err, len(told), row.status, row.attempts)
		}
	})
}

// What cannot be stored ends a drain, and is told of by nothing but the error.
func TestDrainEndsWhenAnOutcomeCannotBeStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rail := newFakeRail()
		rail.add("a", 1)
		rail.add("a", 2)
		away := errors.New("connection refused")
		rail.before = func(_ context.Context, call string) error {
			if call == "markProcessed" {
				return away
			}
			return nil
		}
		if told, err := drains(t, t.Context(), rail); !errors.Is(err, away) || len(told) != 0 || rail.count("pending") != 1 {
			t.Errorf("%v, %d deliveries, %d events untouched", err, len(told), rail.count("pending"))
		}
	})
}
