// Package bouncer puts PgBouncer between a test and its server.
package bouncer

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A Mode is PgBouncer's pool_mode: how long a client keeps a session of the server.
type Mode string

// The modes.
const (
	Transaction Mode = "transaction"
	Session     Mode = "session"
)

const (
	port     = 6432
	patience = 10 * time.Second
)

// Through makes a pool lead through a PgBouncer that is started for the test, in front of the server that the
// pool's configuration leads to:
//
//	pgtest.New(t, pgtest.PoolConfig(bouncer.Through(t, bouncer.Transaction)))
func Through(t testing.TB, mode Mode) func(*pgxpool.Config) {
	t.Helper()
	return func(config *pgxpool.Config) {
		t.Helper()
		to := config.ConnConfig
		upstream := fmt.Sprintf("host=%s port=%d user=%s", to.Host, to.Port, to.User)
		if to.Password != "" { // an empty one is a syntax error
			upstream += fmt.Sprintf(" password='%s'", strings.ReplaceAll(to.Password, "'", "''"))
		}
		settings := "[databases]\n* = " + upstream + "\n" +
			fmt.Sprintf("[pgbouncer]\npool_mode = %s\nlisten_port = %d\nauth_type = any\nlogfile =\n", mode, port)
		to.Host, to.Port, to.Fallbacks, to.TLSConfig = start(t, settings), port, nil, nil
	}
}

// script runs PgBouncer until its input ends, which comes when this process ends, killed or not. Root's PgBouncer
// becomes the user that the server runs as, who alone may enter its socket's directory.
const script = `
if [ "$(id -u)" = 0 ]; then
  chown -R postgres "$1"
  set -- "$1" -u postgres
fi
dir=$1
shift
PATH=$PATH:/usr/sbin pgbouncer "$@" "$dir/ini" &
cat >/dev/null
kill $!
wait $!
rm -rf "$dir"
`

// start returns the directory of its socket once it accepts connections.
func start(t testing.TB, settings string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgbouncer-") // short, as the path of a socket must be
	if err != nil {
		t.Fatal(err)
	}
	settings += fmt.Sprintf("unix_socket_dir = %s\n", dir)
	if err := os.WriteFile(filepath.Join(dir, "ini"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "pgbouncer.log"))
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", script, "pgrail-bouncer", dir)
	cmd.Stdin, cmd.Stderr = read, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _, _ = write.Close(), cmd.Wait(), log.Close()
	})
	_ = read.Close()
	await(t, dir, log.Name())
	return dir
}

// await polls: PgBouncer tells nobody that it is ready.
func await(t testing.TB, dir, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("%s/.s.PGSQL.%d", dir, port))
		if err == nil {
			_ = conn.Close()
			return
		}
	}
	text, _ := os.ReadFile(log)
	t.Fatalf("PgBouncer does not start (Debian: apt-get install pgbouncer):\n%s", text)
}
