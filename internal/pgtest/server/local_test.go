package server_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	const awkward = `it's 100% \n "odd"`
	l := startLocal(t, server.Options{Settings: map[string]string{"cluster_name": awkward, "timezone": "Asia/Kolkata"}})
	got := map[string]string{}
	for _, name := range []string{"cluster_name", "timezone", "fsync", "listen_addresses"} {
		got[name] = query(t, l.URL("postgres"), "SHOW "+name)
	}
	want := map[string]string{"cluster_name": awkward, "timezone": "Asia/Kolkata", "fsync": "off", "listen_addresses": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	l.Settings = map[string]string{"timezone": "Asia/Tokyo"}
	restart(t, l, server.Fast)
	if got := query(t, l.URL("postgres"), "SHOW timezone"); got != "Asia/Tokyo" {
		t.Errorf("time zone %s after the restart", got)
	}
}

func restart(t *testing.T, l *server.Local, mode server.StopMode) {
	t.Helper()
	if err := l.Stop(t.Context(), mode); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), l.URL("postgres")); err == nil {
		t.Fatalf("after a stop of mode %s the server still answers", mode)
	}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestStopAndStartOnTheSameData(t *testing.T) {
	t.Parallel()
	l := startLocal(t, server.Options{Loopback: true})
	url := l.URL("postgres")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE public.kept AS SELECT 'yes'::text AS value"); err != nil {
		t.Fatal(err)
	}
	// An open session holds up the smart mode and not the others.
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := l.Stop(ctx, server.Smart); err == nil {
		t.Fatal("the smart mode does not wait for sessions")
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has stopped", func() bool { return !exists(dirOf(l) + "/data/postmaster.pid") })
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []server.StopMode{server.Smart, server.Fast, server.Immediate} {
		restart(t, l, mode)
		if got := query(t, url, "SELECT value FROM public.kept"); got != "yes" {
			t.Errorf("after %s: %q", mode, got)
		}
	}
	log, err := os.ReadFile(l.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "was not properly shut down"); n != 1 {
		t.Errorf("%d recoveries, want one, from the immediate stop:\n%s", n, log)
	}
}

func TestLoopbackNeedsThePassword(t *testing.T) {
	t.Parallel()
	l := startLocal(t, server.Options{Loopback: true})
	if got := query(t, l.URL("postgres"), "SELECT host(inet_server_addr())"); got != "127.0.0.1" {
		t.Errorf("the URL leads to %s", got)
	}
	if got := query(t, l.SocketURL("postgres"), "SELECT coalesce(host(inet_server_addr()), 'socket')"); got != "socket" {
		t.Errorf("the socket's URL leads to %s", got)
	}
	config, err := pgx.ParseConfig(l.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "guess"
	_, err = pgx.ConnectConfig(t.Context(), config)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "28P01" {
		t.Errorf("with a wrong password: %v", err)
	}
}

// What libpq and psql read from the environment must not lead elsewhere.
func TestEnvironmentOfOtherServers(t *testing.T) {
	for name, value := range map[string]string{
		"PGHOST": "/nowhere", "PGPORT": "1", "PGUSER": "nobody", "PGDATABASE": "none", "PGDATA": "/nowhere", "PGSSLMODE": "require",
	} {
		t.Setenv(name, value)
	}
	l := startLocal(t, server.Options{})
	if got := query(t, l.URL("postgres"), "SELECT current_user || '@' || current_database()"); got != "postgres@postgres" {
		t.Errorf("connected as %s", got)
	}
}

func TestStartReportsTheServersOwnWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options server.Options
		words   string
	}{
		"bad setting":    {server.Options{Settings: map[string]string{"work_mem": "plenty"}}, `invalid value for parameter "work_mem"`},
		"unknown locale": {server.Options{Locale: "xx_NOWHERE"}, `invalid locale name "xx_NOWHERE"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := server.StartLocal(t.Context(), c.options)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v; want one with %s", err, c.words)
			}
		})
	}
}
