package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var (
	kills    = flag.Int("kills", 5, "how many workers the soak kills")
	restarts = flag.Int("restarts", 1, "how often the soak stops the server and starts it again")
	events   = flag.Int("events", 2000, "how many events the soak delivers")
	limit    = flag.Duration("limit", 20*time.Minute, "how long the soak may take")
)

// TestMain turns the process into a worker where a test has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv(envURL) == "" {
		_ = flag.Set("test.parallel", "6") // most of these tests wait for a clock; the command line's own goes before
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
