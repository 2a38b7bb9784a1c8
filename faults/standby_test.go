package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openlup/pgrail/internal/pgtest/server"
	"github.com/openlup/pgrail/outbox"
)

// TestPromotedStandby: a worker whose connections lead to a streaming standby waits, and goes on when that is promoted; a
// producer there is told that the server is read-only.
func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	primary := newRig(t)
	primary.enqueue(draft(1, load{Seq: 1}), draft(1, load{Seq: 2}), draft(2, load{Seq: 1}))
	standby, promote := primary.standby()
	standby.until(`pg_is_in_recovery() and (select count(*) from public.outbox_events where status = 'pending') = 3`)
	worker := standby.spawn(never, 4)
	standby.wait(func() bool { return strings.Contains(worker.words(), "25006") })
	if _, err := outbox.Enqueue(context.Background(), standby.pool, draft(3, load{Seq: 1})); !errors.Is(err, outbox.ErrReadOnly) {
		t.Errorf("a producer is told %v", err)
	}
	primary.must(primary.server.Stop(context.Background(), server.Immediate))
	promote()
	standby.until(allProcessed)
	standby.enqueue(draft(3, load{Seq: 1}))
	standby.until(`(select count(*) from public.outbox_events where status = 'processed') = 4`)
	worker.stop()
	v := standby.verdict()
	v.expectClean(t, 4)
	if v.Duplicates != 0 {
		t.Errorf("%d repeats", v.Duplicates)
	}
}

// standbyScript runs a standby until its input ends, which comes when this process ends, killed or not.
const standbyScript = `
"$1/pg_basebackup" -R -X stream -c fast -d "$2" -D "$3/data" || exit
"$1/postgres" -D "$3/data" -c port="$4" -c unix_socket_directories="$3" -c hot_standby=on &
cat >/dev/null
kill -INT $!
wait $!
`

// standby makes a streaming standby, and returns what promotes it.
func (r *rig) standby() (s *rig, promote func()) {
	r.Helper()
	uid, gid := postgres(r)
	dir, err := os.MkdirTemp("/tmp", "pgrail-standby-") // short, as the path of a socket must be
	r.must(err)
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	r.must(os.Chown(dir, uid, gid))
	port := freePort(r)
	as := &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: os.Geteuid() != 0}}
	log, err := os.Create(filepath.Join(r.TempDir(), "standby"))
	r.must(err)
	read, write, err := os.Pipe()
	r.must(err)
	cmd := exec.Command("/bin/sh", "-c", standbyScript, "pgrail-standby", r.server.BinDir, r.url, dir, strconv.Itoa(port))
	cmd.Dir, cmd.SysProcAttr, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, as, read, log, log
	r.must(cmd.Start())
	r.must(read.Close())
	r.Cleanup(func() { _, _, _ = write.Close(), cmd.Wait(), log.Close() })

	to, err := url.Parse(r.url)
	r.must(err)
	to.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s = &rig{TB: r.TB, url: to.String()}
	s.pool, err = pgxpool.New(context.Background(), s.url)
	r.must(err)
	r.Cleanup(s.pool.Close)
	return s, func() { s.exec(`select pg_promote()`) }
}

// postgres is who runs servers: this process's user, or postgres where that is root, as in package server.
func postgres(t testing.TB) (uid, gid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Getuid(), os.Getgid()
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Sscan(u.Uid+" "+u.Gid, &uid, &gid)
	if err != nil {
		t.Fatal(err)
	}
	return uid, gid
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
