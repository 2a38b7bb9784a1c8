package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// trial is a loop on a fake rail, in a bubble.
type trial struct {
	*testing.T
	rail *fakeRail
	loop *Loop
	bell *alarm
	log  *journal
	end  context.CancelFunc
	done chan struct{}
	left *StopError
	err  error
}

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, run)
}

// elapse lets time pass by the bubble's clock: at once, when all its goroutines wait.
func elapse(d time.Duration) { <-time.After(d) }

func testConfig(types ...string) Config {
	return Config{
		Policy: Policy{MaxAttempts: 8, MaxSnoozes: 1000, BaseDelay: 5 * time.Second, MaxDelay: time.Hour, Snooze: time.Minute},
		Types:  types, Concurrency: 10, Lease: 5 * time.Minute, PollInterval: time.Second, StopTimeout: 30 * time.Second, Pause: 5 * time.Second,
	}
}

// launch starts a loop; its listener does nothing, and ringing the bell is up to the test.
func launch(t *testing.T, rail *fakeRail, cfg Config, handle Handle) *trial {
	t.Helper()
	return launchOn(t, rail, rail, cfg, handle)
}

// launchOn starts a loop on something between it and the fake.
func launchOn(t *testing.T, on rail, rail *fakeRail, cfg Config, handle Handle) *trial {
	t.Helper()
	log := &journal{}
	cfg.Logger = newLogger(log)
	ctx, end := context.WithCancel(context.Background())
	b := &trial{T: t, rail: rail, loop: New(cfg, handle), bell: newAlarm(), log: log, end: end, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.left, b.err = b.loop.work(ctx, on, b.bell, func(ctx context.Context) { <-ctx.Done() })
		close(b.loop.done)
	}()
	t.Cleanup(end)
	return b
}

// stop stops the loop and wants a clean end.
func (b *trial) stop() {
	b.Helper()
	b.loop.Stop(context.Background())
	<-b.done
	if b.left != nil || b.err != nil {
		b.Errorf("stopped with %v, %v\n%s", b.left, b.err, b.log)
	}
}

func processed(context.Context, Claimed) Result { return Result{Outcome: Processed} }
