package testbed

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

// CPU is processor time. It tells more than the clock where the
// machine is busy with other things too.
type CPU struct {
	Server time.Duration // of the sessions of one database
	Client time.Duration // of this process
}

// A CPUClock counts processor time from its making on. It works on Linux with a
// server of this machine's; elsewhere it reads 0.
type CPUClock struct {
	db     *Database
	before map[uint32]time.Duration
	client time.Duration
}

// StartCPU starts a clock for the database's sessions and this process.
func (d *Database) StartCPU(ctx context.Context) (*CPUClock, error) {
	before, err := d.sessionCPU(ctx)
	return &CPUClock{d, before, processCPU()}, err
}

// Read is the time used since the start, that of sessions which have ended excepted.
func (c *CPUClock) Read(ctx context.Context) (CPU, error) {
	used := CPU{Client: processCPU() - c.client}
	now, err := c.db.sessionCPU(ctx)
	for pid, total := range now {
		used.Server += total - c.before[pid]
	}
	return used, err
}

func (d *Database) sessionCPU(ctx context.Context) (map[uint32]time.Duration, error) {
	rows, err := d.Pool.Query(ctx, `
SELECT a.pid FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.backend_type = 'client backend'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	used := map[uint32]time.Duration{}
	for rows.Next() {
		var pid uint32
		if err := rows.Scan(&pid); err != nil {
			return nil, err
		}
		used[pid] = d.SessionCPU(pid)
	}
	return used, rows.Err()
}

// SessionCPU is the processor time of one server process so far, to the nanosecond.
func (d *Database) SessionCPU(pid uint32) time.Duration {
	if d.bed.server.Kind() != server.KindLocal {
		return 0 // its process numbers are not ours
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return 0
	}
	ns, _ := strconv.ParseInt(fields[0], 10, 64)
	return time.Duration(ns)
}

// ticks per second are 100 on every Linux that Go runs on.
const tick = time.Second / 100

// processCPU is the processor time of this process, all threads together.
func processCPU() time.Duration {
	text, err := os.ReadFile("/proc/self/stat")
	// The name, in parentheses, may contain spaces; the 12th and 13th field after it count.
	_, after, found := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if err != nil || !found || len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}
