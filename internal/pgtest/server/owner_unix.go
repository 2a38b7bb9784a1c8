//go:build unix

package server

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// longestSocketDir leaves room for "/.s.PGSQL.65535" in the 104 bytes that the
// strictest system gives a socket's path.
const longestSocketDir = 104 - 16

// An owner is the operating system's user that runs the server: this process's,
// or postgres where this is root, because the server refuses to run as root.
type owner struct {
	root     bool
	uid, gid int
}

func findOwner() (*owner, error) {
	if os.Geteuid() != 0 {
		return &owner{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("as root the server runs as the user postgres: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return &owner{root: true, uid: uid, gid: gid}, err
}

// mkdirTemp avoids a TMPDIR that is too deep for a socket or, for root, possibly
// closed to the owner.
func (o *owner) mkdirTemp(base string) (string, error) {
	if base == "" {
		base = os.TempDir()
		if o.root || len(base)+len("/pgrail-0123456789") > longestSocketDir {
			base = "/tmp"
		}
	}
	dir, err := os.MkdirTemp(base, "pgrail-")
	if err != nil {
		return "", err
	}
	return dir, o.own(dir)
}

// command drops root's rights and the PG* variables, which would change the
// server's settings.
func (o *owner) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if o.root {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	cmd.Env = []string{"LC_ALL=C"}
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "PG") && !strings.HasPrefix(pair, "LC_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	return cmd
}

func (o *owner) run(ctx context.Context, dir, name string, args ...string) error {
	out, err := o.command(ctx, dir, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, out)
	}
	return nil
}

// copyDir copies a data directory; the server insists on its owner and mode.
func (o *owner) copyDir(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return o.own(path)
	})
}

func (o *owner) writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return o.own(path)
}

// own closes path to everybody else too.
func (o *owner) own(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, info.Mode().Perm()&0o700); err != nil {
		return err
	}
	if !o.root {
		return nil
	}
	return os.Chown(path, o.uid, o.gid)
}
