package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// initData makes the data directory. initdb takes most of a second, so its
// result is kept in the user's cache directory and copied from there, which is
// ten times as fast; each test binary starts a server of its own.
func (l *Local) initData(ctx context.Context, locale string) error {
	if locale == "" {
		locale = "C"
	}
	args := []string{"--username=" + superuser, "--auth-local=trust", "--auth-host=scram-sha-256",
		"--encoding=UTF8", "--locale=" + locale, "--no-sync"}
	cached := cacheDir(append([]string{l.BinDir, l.Version}, args...))
	if cached != "" && l.owner.copyDir(cached, l.data()) == nil {
		return nil
	}
	if err := os.RemoveAll(l.data()); err != nil {
		return err
	}
	if err := l.owner.run(ctx, l.dir, filepath.Join(l.BinDir, "initdb"), append(args, "-D", l.data())...); err != nil {
		return err
	}
	if err := appendFile(filepath.Join(l.data(), "postgresql.conf"), "include 'pgrail.conf'\n"); err != nil {
		return err
	}
	if cached != "" {
		fillCache(l.data(), cached)
	}
	return nil
}

// cacheDir is empty where the user has no cache directory.
func cacheDir(key []string) string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return filepath.Join(base, "pgrail", "initdb-"+hex.EncodeToString(sum[:8]))
}

// fillCache appears at once or not at all, as other processes look for cached at
// the same time. Failing costs only time, so it is silent.
func fillCache(data, cached string) {
	if os.MkdirAll(filepath.Dir(cached), 0o700) != nil {
		return
	}
	temp, err := os.MkdirTemp(filepath.Dir(cached), "new-")
	if err != nil {
		return
	}
	if os.CopyFS(temp, os.DirFS(data)) != nil || os.Rename(temp, cached) != nil {
		_ = os.RemoveAll(temp)
	}
}

// configure writes the settings to a file that postgresql.conf includes.
func (l *Local) configure() error {
	settings := map[string]string{
		"listen_addresses":        "",
		"port":                    strconv.Itoa(l.portNumber()),
		"unix_socket_directories": l.dir,
		"unix_socket_permissions": "0700",
		"fsync":                   "off",
		"max_connections":         "300",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if l.port != 0 {
		settings["listen_addresses"] = "127.0.0.1"
	}
	maps.Copy(settings, l.Settings)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(settings[name]))
	}
	return l.owner.writeFile(filepath.Join(l.data(), "pgrail.conf"), b.String())
}

func appendFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
