//go:build unix

package server

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// guardScript waits for the end of its input, which comes when this process
// closes the pipe or ends, killed or not; no exit handler is needed, and go
// test's binaries offer none. Then it removes the server. An initdb cut off from
// its parent may go on for a moment and make rm fail.
const guardScript = `
cat >/dev/null
left=$(cat "$1/keep" 2>/dev/null || echo 0)
while [ "$left" -gt 0 ] && [ -e "$1/keep" ]; do sleep 1; left=$((left - 1)); done
"$2/pg_ctl" stop -D "$1/data" -m immediate -w -s
cd /
until rm -rf "$1"; do sleep 1; done
`

// A guard is the process that removes a server after its user.
type guard struct {
	cmd  *exec.Cmd
	pipe io.Closer
	note string // the file that tells it to wait
	kept atomic.Bool
}

// watch starts the guard. Its output goes nowhere: on a pipe of go test's it
// would keep go test waiting.
func (o *owner) watch(dir, binDir string) (*guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = read.Close() }()
	cmd := o.command(context.Background(), dir, "/bin/sh", "-c", guardScript, "pgrail-guard", dir, binDir)
	cmd.Stdin = read
	if err := cmd.Start(); err != nil {
		_ = write.Close()
		return nil, err
	}
	return &guard{cmd: cmd, pipe: write, note: filepath.Join(dir, "keep")}, nil
}

func (g *guard) keep(d time.Duration) error {
	g.kept.Store(true)
	return os.WriteFile(g.note, []byte(strconv.Itoa(int(d.Seconds()))), 0o644)
}

// release returns when the server is gone, or at once if it is to be kept.
func (g *guard) release() error {
	if err := g.pipe.Close(); err != nil || g.kept.Load() {
		return err
	}
	return g.cmd.Wait()
}
