package testbed

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

// mustBeDurable refuses a server on which a commit can be lost: its figures would
// say nothing about one that keeps its promise.
func (b *Bed) mustBeDurable(ctx context.Context) error {
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		value, err := b.setting(ctx, name)
		if err != nil {
			return err
		}
		if value != "on" {
			return fmt.Errorf("testbed: setting %s is %s, not on", name, value)
		}
	}
	storage, err := b.storage(ctx)
	if strings.HasPrefix(storage, "tmpfs") {
		return fmt.Errorf("testbed: the server keeps its data in memory; set TMPDIR to a directory on a disk")
	}
	return err
}

func (b *Bed) setting(ctx context.Context, name string) (value string, err error) {
	err = b.admin.QueryRow(ctx, `SELECT pg_catalog.current_setting($1::text)`, name).Scan(&value)
	return value, err
}

// storage is the file system under the server's data, as the mount table names it;
// unknown where the server is not a process of this machine.
func (b *Bed) storage(ctx context.Context) (string, error) {
	if b.server.Kind() != server.KindLocal {
		return "unknown", nil
	}
	dir, err := b.setting(ctx, "data_directory")
	if err != nil {
		return "", err
	}
	return mounted(dir), nil
}

// mounted finds the mount that holds path: the one with the longest mount point.
func mounted(path string) string {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return "unknown"
	}
	defer func() { _ = f.Close() }()
	found, longest := "unknown", -1
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // device, mount point, type, options ...
		if len(fields) < 3 || len(fields[1]) < longest {
			continue
		}
		if point := strings.TrimSuffix(fields[1], "/"); path == point || strings.HasPrefix(path, point+"/") {
			found, longest = fields[2]+" on "+fields[0], len(fields[1])
		}
	}
	return found
}
