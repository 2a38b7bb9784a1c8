// Package scenario holds what is measured, one file per question.
package scenario

import (
	"context"
	"time"

	"github.com/openlup/pgrail/bench/internal/report"
	"github.com/openlup/pgrail/bench/internal/testbed"
)

// A Scenario answers one question about the rail.
type Scenario struct {
	Name  string
	About string
	Run   func(ctx context.Context, env Env) error
}

// All scenarios, in the order of their importance.
var All = []Scenario{
	{"claim", "cost of a claim against the backlog's size, in twelve shapes", claimCost},
	{"throughput", "acknowledged events per second against River and the floor", throughput},
	{"enqueue", "events written per second against River's InsertManyFast", enqueue},
	{"latency", "from commit to handler, idle and at 1,000 events/s", latency},
	{"wake", "what waking the worker costs producers", wakeUp},
	{"skew", "one key per event, Zipf, one hot key", skew},
	{"history", "work, empty polls and scrapes beside a million processed events", history},
	{"snapshot", "a snapshot held open, then released", heldSnapshot},
	{"kill", "repeats, burnt attempts and order when a worker process is killed", kill},
	{"footprint", "statements, round trips, WAL and row versions per event", footprint},
}

// Env is what a scenario works with.
type Env struct {
	Bed    *testbed.Bed
	Report *report.Report
	Size   Size
	// Log tells those who wait what goes on.
	Log func(format string, args ...any)
}

// Size is how much a run does.
type Size struct {
	Rounds   int // how often each contender has its turn
	Jobs     int // events to work off
	Variants int // how many settings of each contender are tried

	Backlogs []int         // claim: sizes of the backlog, the first being compared with
	Shape    string        // claim: how the names of the measured shapes begin
	Stride   int           // claim: each how many-th of them is measured
	Calls    int           // claim: measured calls per backlog
	Settle   time.Duration // claim: what has not settled by then has not settled

	Singles      int           // enqueue: events of a transaction each
	IdleEvents   int           // latency: events on an idle rail
	OpenLoop     time.Duration // latency: length of the open loop
	WakeRounds   int           // wake: turns of each mode
	WakeTurn     time.Duration // wake: length of a turn
	History      int           // history: processed events
	HeldPortions int           // snapshot: portions of Jobs while it is held
	Kills        int           // kill: worker processes killed
}

// Full is the size that the targets are meant for.
var Full = Size{
	Rounds: 3, Jobs: 200_000, Variants: 7,
	Backlogs: []int{1_000, 300_000}, Stride: 1, Calls: 41, Settle: 2 * time.Minute,
	Singles: 10_000, IdleEvents: 300, OpenLoop: 30 * time.Second,
	WakeRounds: 5, WakeTurn: 3 * time.Second, History: 1_000_000, HeldPortions: 3, Kills: 5,
}

// Quick shows in a few minutes where a change leads; its verdicts are a hint.
var Quick = Size{
	Rounds: 1, Jobs: 50_000, Variants: 3,
	Backlogs: []int{1_000, 50_000}, Stride: 1, Calls: 21, Settle: 30 * time.Second,
	Singles: 2_000, IdleEvents: 50, OpenLoop: 8 * time.Second,
	WakeRounds: 3, WakeTurn: time.Second, History: 200_000, HeldPortions: 2, Kills: 3,
}

// Smoke is just enough to run every line.
var Smoke = Size{
	Rounds: 1, Jobs: 1_000, Variants: 1,
	Backlogs: []int{100, 500}, Stride: 3, Calls: 3, Settle: 5 * time.Second,
	Singles: 100, IdleEvents: 3, OpenLoop: time.Second,
	WakeRounds: 1, WakeTurn: 200 * time.Millisecond, History: 2_000, HeldPortions: 1, Kills: 0,
}
