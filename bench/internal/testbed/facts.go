package testbed

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/openlup/pgrail/bench/internal/sample"
)

// Facts are what a reader must know to compare the figures with others: pairs of a
// name and a value.
func (b *Bed) Facts(ctx context.Context) ([][]any, error) {
	facts := [][]any{
		{"date", time.Now().UTC().Format("2006-01-02 15:04 UTC")},
		{"processor", fmt.Sprintf("%d × %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name"))},
		{"memory", field("/proc/meminfo", "MemTotal")},
		{"system", runtime.GOOS + "/" + runtime.GOARCH + " " + line("/proc/sys/kernel/osrelease")},
		{"load before the run", line("/proc/loadavg")},
		{"Go", runtime.Version()},
	}
	facts = append(facts, modules()...)
	return b.appendServer(ctx, facts)
}

func (b *Bed) appendServer(ctx context.Context, facts [][]any) ([][]any, error) {
	names := []string{"server_version"}
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names[1:])
	for _, name := range names {
		value, err := b.setting(ctx, name)
		if err != nil {
			return nil, err
		}
		facts = append(facts, []any{"PostgreSQL " + name, value})
	}
	storage, err := b.storage(ctx)
	if err != nil {
		return nil, err
	}
	commit, err := b.commitTime(ctx)
	if err != nil {
		return nil, err
	}
	return append(facts, []any{"storage", storage}, []any{"smallest durable commit, median", fmt.Sprintf("%.2f ms", commit)}), nil
}

// commitTime is what the disk gives: the least that anything durable costs here.
func (b *Bed) commitTime(ctx context.Context) (float64, error) {
	conn, err := b.admin.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	var taken sample.Set
	for range 200 {
		start := time.Now()
		// The smallest thing that is written ahead; it leaves no table behind.
		if _, err := conn.Exec(ctx, "SELECT pg_catalog.pg_logical_emit_message(true, 'pgrail', 'commit')"); err != nil {
			return 0, err
		}
		taken.Add(time.Since(start))
	}
	return taken.Median(), nil
}

// modules are the versions of those under test.
func modules() [][]any {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	shown := []string{"github.com/riverqueue/river", "github.com/jackc/pgx/v5"}
	var facts [][]any
	for _, dep := range info.Deps {
		if slices.Contains(shown, dep.Path) {
			facts = append(facts, []any{dep.Path, dep.Version})
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			facts = append(facts, []any{"pgrail revision", s.Value})
		}
	}
	return facts
}

// field finds "name : value" in a file of such lines, as Linux has them.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
