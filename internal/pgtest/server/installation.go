package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Installation is a set of server binaries on this machine.
type Installation struct {
	BinDir  string
	Version string // as "postgres --version" prints it, "15.14"
	Major   int
}

// binDirs are where distributions put servers that are not in PATH.
var binDirs = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // RHEL, Fedora, from postgresql.org
	"/usr/libexec/postgresql*",                           // Alpine
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",    // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/usr/local/pgsql/bin",                               // make install
}

// Installations lists the servers of version MinVersion or newer, newest first
// and one for each major version. PGRAIL_TEST_PGBIN, when set, is the only one.
func Installations(ctx context.Context) ([]Installation, error) {
	if dir := os.Getenv(EnvBin); dir != "" {
		one, err := inspect(ctx, dir)
		return []Installation{one}, err
	}
	var found []Installation
	var problems []error
	for _, dir := range candidates(ctx) {
		one, err := inspect(ctx, dir)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		found = append(found, one)
	}
	if len(found) == 0 {
		return nil, errors.Join(append(problems, errors.New("no server binaries in PATH or the usual directories"))...)
	}
	return newestFirst(found), nil
}

// newestFirst keeps, of each major version, the one found first: PATH wins.
func newestFirst(found []Installation) []Installation {
	slices.SortStableFunc(found, func(a, b Installation) int { return cmp.Compare(b.Major, a.Major) })
	return slices.CompactFunc(found, func(a, b Installation) bool { return a.Major == b.Major })
}

// candidates may hold directories that lack a server: pg_config also comes with
// the client library.
func candidates(ctx context.Context) []string {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("pg_ctl"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range binDirs {
		matches, _ := filepath.Glob(pattern) // the patterns are constants and well formed
		dirs = append(dirs, matches...)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "postgres"))
		return err != nil
	})
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[.\w]*)`)

func inspect(ctx context.Context, dir string) (Installation, error) {
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return Installation{}, err
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Installation{}, fmt.Errorf("%s/postgres --version: %w", dir, err)
	}
	match := versionText.FindStringSubmatch(string(out))
	if match == nil {
		return Installation{}, fmt.Errorf("%s/postgres --version: unknown answer %q", dir, out)
	}
	major, err := strconv.Atoi(match[2])
	if err != nil || major < MinVersion {
		return Installation{}, fmt.Errorf("%s holds version %s, older than %d", dir, match[1], MinVersion)
	}
	return Installation{BinDir: dir, Version: match[1], Major: major}, nil
}
