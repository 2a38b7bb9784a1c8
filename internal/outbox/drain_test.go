package outbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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

// Drain handles all of it: with the first event out of the way, and also with it in the way until later.
func TestDrainGoesThroughWhatIsBlocked(t *testing.T) {
	for name, c := range map[string]struct {
		backlog, want int
		first         Result
	}{
		"processed":         {600, 606, Result{Outcome: Processed}},
		"tried again later": {3000, 6, Result{Outcome: Retry, Delay: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.backlog(c.backlog)
			handle := func(_ context.Context, e Claimed) Result {
				if e.IdempotencyKey == "old 0" && e.Attempt == 1 {
					return c.first
				}
				return Result{Outcome: Processed}
			}
			told := 0
			if err := Drain(t.Context(), r.db.Pool.Config(), testConfig("a"), handle, func(Delivery) { told++ }); err != nil {
				t.Fatal(err)
			}
			if left := value[int](r, `select count(*) from public.outbox_events where status <> 'processed' and aggregate_id <> '00000000-0000-0000-0000-000000000001'`); told != c.want || left != 0 {
				t.Errorf("%d deliveries, want %d; %d fresh events are left", told, c.want, left)
			}
			if bad := value[int](r, `select count(*) from public.outbox_check()`); bad != 0 {
				t.Errorf("outbox_check finds %d marks wrong", bad)
			}
		})
	}
}

// Drain waits for what somebody else has locked only for a moment, and handles what comes free in it.
func TestDrainAndALockedEvent(t *testing.T) {
	r := newRig(t)
	r.insert("a", 2)
	lock := func() func() {
		tx, err := r.db.Pool.Begin(t.Context())
		if err == nil {
			_, err = tx.Exec(t.Context(), `select from public.outbox_events where status = 'pending' order by id desc limit 1 for update`)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := tx.Rollback(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	drain := func(config *pgxpool.Config, claimed func(events int, took time.Duration)) (told int) {
		cfg := testConfig("a")
		cfg.Observer.Claimed = claimed
		if err := Drain(t.Context(), config, cfg, processed, func(Delivery) { told++ }); err != nil {
			t.Error(err)
		}
		return told
	}
	unlock, begun, looks := lock(), time.Now(), 0
	if told := drain(r.db.Pool.Config(), func(int, time.Duration) { looks++ }); told != 1 || time.Since(begun) < drainPatience || looks > 2500 {
		t.Errorf("%d deliveries beside a locked event, after %v and %d looks", told, time.Since(begun), looks)
	}
	looks = 0
	told := drain(r.db.Pool.Config(), func(int, time.Duration) {
		if looks++; looks == 20 {
			unlock()
		}
	})
	if told != 1 {
		t.Errorf("%d deliveries of the event that came free after the tenth try", told)
	}
}
