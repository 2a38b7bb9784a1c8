package outbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/db"
)

// fakeRail keeps the rail's promises in memory, so that the loop can be tried in a bubble with its own clock, and with
// failures at chosen moments.
type fakeRail struct {
	mu    sync.Mutex
	rows  []*fakeRow
	calls map[string]int
	// before and after fail a call: without its effect, or with it and without its reply. They may block.
	before, after func(ctx context.Context, call string) error
	alive         bool
	limits        []int // what claims asked for
	window        int   // how many blocked rows a claim files at most, if not 0
	known         []string
}

type fakeRow struct {
	Claimed
	status   string
	attempts int
	due      time.Time
	err      string
	suspect  bool
	filed    bool // blocked, and found so by a claim
	locked   bool // by somebody else
}

func newFakeRail() *fakeRail { return &fakeRail{calls: map[string]int{}, alive: true} }

// add appends an event of a type and the n-th aggregate.
func (f *fakeRail) add(eventType string, n int) *fakeRow {
	return f.put(eventType, n, func(*fakeRow) {})
}

// put is add for an event with a history.
func (f *fakeRail) put(eventType string, n int, history func(*fakeRow)) *fakeRow {
	f.mu.Lock()
	defer f.mu.Unlock()
	row := &fakeRow{status: "pending", due: time.Now()}
	row.ID, row.EventType, row.AggregateID = uuid.New(), eventType, uuid.UUID{15: byte(n), 14: byte(n >> 8)}
	history(row)
	f.rows = append(f.rows, row)
	return row
}

func (f *fakeRail) count(status string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range f.rows {
		if row.status == status {
			n++
		}
	}
	return n
}

func (f *fakeRail) called(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

// do runs one call; the hooks run outside the lock.
func (f *fakeRail) do(ctx context.Context, call string, effect func()) error {
	f.mu.Lock()
	f.calls[call]++
	f.mu.Unlock()
	for _, step := range []func(context.Context, string) error{f.before, func(context.Context, string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		effect()
		return nil
	}, f.after} {
		if step == nil {
			continue
		}
		if err := step(ctx, call); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *fakeRail) claim(ctx context.Context, ask ask, known []string, lease time.Duration) (claimed []Claimed, err error) {
	err = f.do(ctx, "claim", func() {
		f.limits, f.known = append(f.limits, ask.limit), known
		parked := 0
		for i, row := range f.rows {
			if len(claimed) == ask.limit || f.window > 0 && parked == f.window {
				break
			}
			if !row.ready(ask.types) || ask.suspects != row.suspect || row.locked {
				continue
			}
			if f.blocked(i, known) {
				if !row.filed {
					parked++
				}
				row.filed = true
				continue
			}
			row.status, row.due, row.Token = "processing", time.Now().Add(lease), uuid.NewString()
			row.attempts++
			row.Attempt = row.attempts
			claimed = append(claimed, row.Claimed)
		}
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// ready tells whether a row is active and due.
func (row *fakeRow) ready(types []string) bool {
	active := row.status == "pending" || row.status == "failed" || row.status == "processing"
	return active && slices.Contains(types, row.EventType) && !row.due.After(time.Now())
}

func (f *fakeRail) anyReady(ctx context.Context, types []string) (any bool, err error) {
	err = f.do(ctx, "anyReady", func() {
		for i, row := range f.rows {
			any = any || row.ready(types) && !row.suspect && !(row.filed && f.blocked(i, f.known))
		}
	})
	return any, err
}

func (f *fakeRail) blocked(i int, known []string) bool {
	for _, older := range f.rows[:i] {
		if older.AggregateID == f.rows[i].AggregateID && !slices.Contains(known, older.EventType) && older.status != "processed" && older.status != "discarded" {
			return true
		}
	}
	return false
}

// held returns the row that a token holds, or nil.
func (f *fakeRail) held(event Claimed) *fakeRow {
	for _, row := range f.rows {
		if row.ID == event.ID && row.Token == event.Token && row.status == "processing" {
			return row
		}
	}
	return nil
}

func (f *fakeRail) markProcessed(ctx context.Context, batch []verdict) (outcomes []string, err error) {
	err = f.do(ctx, "markProcessed", func() {
		for _, v := range batch {
			outcome := "lost"
			if row := f.held(v.event); row != nil {
				row.status, outcome = "processed", "processed"
			}
			outcomes = append(outcomes, outcome)
		}
	})
	return outcomes, err
}

func (f *fakeRail) markFailed(ctx context.Context, batch []verdict) (outcomes []string, err error) {
	err = f.do(ctx, "markFailed", func() {
		for _, v := range batch {
			row := f.held(v.event)
			if row == nil {
				outcomes = append(outcomes, "missed")
				continue
			}
			row.err = v.result.Error
			row.status, row.due = "failed", time.Now().Add(max(v.result.Delay, 0))
			outcome := map[Outcome]string{Retry: "failed", Snooze: "snoozed", Discard: "discarded"}[v.result.Outcome]
			switch outcome {
			case "snoozed":
				row.attempts--
				row.Snoozes++
			case "discarded":
				row.status = "discarded"
			}
			outcomes = append(outcomes, outcome)
		}
	})
	return outcomes, err
}

func (f *fakeRail) release(ctx context.Context, batch []verdict, delay time.Duration) error {
	return f.do(ctx, "release", func() {
		for _, v := range batch {
			if row := f.held(v.event); row != nil {
				row.status, row.due = "pending", time.Now().Add(delay)
				row.attempts--
			}
		}
	})
}

func (f *fakeRail) extend(ctx context.Context, events []Claimed, lease time.Duration) (map[string]bool, error) {
	kept := map[string]bool{}
	return kept, f.do(ctx, "extend", func() {
		for _, event := range events {
			if row := f.held(event); row != nil {
				row.due = time.Now().Add(lease)
				kept[event.Token] = true
			}
		}
	})
}

func (f *fakeRail) recover(ctx context.Context, _, known []string) (n int32, err error) {
	err = f.do(ctx, "recover", func() {
		for _, row := range f.rows {
			if row.status == "processing" && !slices.Contains(known, row.ID.String()) {
				row.status, row.due = "pending", time.Now()
				row.attempts--
				n++
			}
		}
	})
	return n, err
}

func (f *fakeRail) fallAsleep(ctx context.Context) (asked bool, err error) {
	err = f.do(ctx, "fallAsleep", func() { asked = f.calls["fallAsleep"] == 1 })
	return asked, err
}
func (f *fakeRail) stayAwake(ctx context.Context) error { return f.do(ctx, "stayAwake", func() {}) }
func (f *fakeRail) notifySelf(ctx context.Context, _ string) error {
	return f.do(ctx, "notifySelf", func() {})
}
func (f *fakeRail) heal(ctx context.Context) (int32, error) {
	return 0, f.do(ctx, "heal", func() {})
}
func (f *fakeRail) appear(ctx context.Context, _ db.DBTX, _ []string) error {
	return f.do(ctx, "appear", func() {})
}
func (f *fakeRail) heartbeat(ctx context.Context) (alive bool, err error) {
	err = f.do(ctx, "heartbeat", func() { alive = f.alive })
	return alive, err
}
func (f *fakeRail) disappear(ctx context.Context) error { return f.do(ctx, "disappear", func() {}) }
func (f *fakeRail) takeOver(ctx context.Context, _ time.Duration) (int32, error) {
	return 0, f.do(ctx, "takeOver", func() {})
}
func (f *fakeRail) anySuspect(ctx context.Context, _ []string) (any bool, err error) {
	err = f.do(ctx, "anySuspect", func() {
		any = slices.ContainsFunc(f.rows, func(row *fakeRow) bool { return row.suspect && row.status == "pending" })
	})
	return any, err
}
