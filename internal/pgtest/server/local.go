package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A StopMode tells what a stopping server does about its sessions.
type StopMode string

// The modes of pg_ctl stop.
const (
	Smart     StopMode = "smart"     // waits until they end by themselves
	Fast      StopMode = "fast"      // rolls back and disconnects
	Immediate StopMode = "immediate" // a crash: recovery at the next start
)

// A Local is a server of this machine's binaries on a temporary directory. Its
// methods are not safe for concurrent use, URL and Keep excepted.
type Local struct {
	Installation
	// Settings hold from the next Start on.
	Settings map[string]string

	dir      string // holds the data, the socket and the log
	owner    *owner
	guard    *guard
	port     int // 0 without TCP
	password string
}

// StartLocal makes a data directory and starts a server on it. fsync is off and
// the time zone UTC, unless the settings say otherwise.
func StartLocal(ctx context.Context, o Options) (*Local, error) {
	inst, err := pick(ctx, o.BinDir)
	if err != nil {
		return nil, err
	}
	l := &Local{Installation: inst, Settings: o.Settings}
	if l.owner, err = findOwner(); err != nil {
		return nil, err
	}
	if l.dir, err = l.owner.mkdirTemp(o.TempDir); err != nil {
		return nil, err
	}
	if l.guard, err = l.owner.watch(l.dir, l.BinDir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	if err := l.setUp(ctx, o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func pick(ctx context.Context, binDir string) (Installation, error) {
	if binDir != "" {
		return inspect(ctx, binDir)
	}
	all, err := Installations(ctx)
	if err != nil {
		return Installation{}, err
	}
	return all[0], nil
}

func (l *Local) setUp(ctx context.Context, o Options) error {
	if err := l.initData(ctx, o.Locale); err != nil {
		return err
	}
	if !o.Loopback {
		return l.Start(ctx)
	}
	var err error
	if l.port, err = freePort(); err != nil {
		return err
	}
	if err := l.Start(ctx); err != nil {
		return err
	}
	return l.setPassword(ctx)
}

// Start starts the server on the same data, directory and port as before.
func (l *Local) Start(ctx context.Context) error {
	if err := l.configure(); err != nil {
		return err
	}
	err := l.owner.run(ctx, l.dir, filepath.Join(l.BinDir, "pg_ctl"), "start", "-w", "-s",
		"-D", l.data(), "-l", l.LogFile())
	if err != nil {
		tail, _ := os.ReadFile(l.LogFile())
		return fmt.Errorf("%w\n%s", err, tail[max(0, len(tail)-2000):])
	}
	return nil
}

// Stop returns when the server has stopped, or with an error when ctx ends
// first; a server told to stop goes on stopping.
func (l *Local) Stop(ctx context.Context, mode StopMode) error {
	return l.owner.run(ctx, l.dir, filepath.Join(l.BinDir, "pg_ctl"), "stop", "-w", "-s",
		"-m", string(mode), "-D", l.data(), "-t", "3600")
}

// Kind returns KindLocal.
func (*Local) Kind() Kind { return KindLocal }

// LogFile is the path of the server's log.
func (l *Local) LogFile() string { return filepath.Join(l.dir, "log") }

// Keep makes the server outlive this process by d.
func (l *Local) Keep(d time.Duration) string {
	if err := l.guard.keep(d); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("its server goes %v after the tests have ended, or at once with: rm %s", d, l.guard.note)
}

// Close stops the server and removes its directory, or leaves that to the guard
// if it is to be kept.
func (l *Local) Close() error { return l.guard.release() }

func (l *Local) data() string { return filepath.Join(l.dir, "data") }

func startLocal(ctx context.Context, o Options) (Server, error) {
	l, err := StartLocal(ctx, o)
	if err != nil {
		return nil, err // not l: a nil *Local is not a nil Server
	}
	return l, nil
}
