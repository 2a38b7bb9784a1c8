package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

func TestChooseNamedServerFirst(t *testing.T) {
	theirs := startLocal(t, server.Options{Loopback: true})
	t.Setenv(server.EnvServer, "")
	t.Setenv(server.EnvURL, theirs.URL("template1"))
	s, err := server.Choose(t.Context(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Kind() != server.KindURL || s.URL("postgres") != theirs.URL("postgres") {
		t.Errorf("kind %s", s.Kind())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := query(t, theirs.URL("postgres"), "SELECT 'still there'"); got != "still there" {
		t.Error(got)
	}
}

func TestChooseLocalServer(t *testing.T) {
	t.Setenv(server.EnvServer, "local")
	t.Setenv(server.EnvURL, "postgres://nobody@127.0.0.1:1/ignored")
	s, err := server.Choose(t.Context(), server.Options{Settings: map[string]string{"cluster_name": "chosen"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := query(t, s.URL("postgres"), "SHOW cluster_name"); s.Kind() != server.KindLocal || got != "chosen" {
		t.Errorf("kind %s, cluster_name %s", s.Kind(), got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if dir := dirOf(s.(*server.Local)); exists(dir) {
		t.Errorf("%s is left after Close", dir)
	}
}

// Whoever names a server means that one: its failure is not covered up by
// another kind.
func TestChooseFailures(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, c := range map[string]struct {
		env   map[string]string
		tried []server.Kind
	}{
		"named server down":   {map[string]string{server.EnvURL: "postgres://u@127.0.0.1:1/db"}, []server.Kind{"url"}},
		"not a URL":           {map[string]string{server.EnvURL: "host=/tmp"}, []server.Kind{"url"}},
		"none named":          {map[string]string{server.EnvServer: "url"}, []server.Kind{"url"}},
		"no such binaries":    {map[string]string{server.EnvServer: "local", server.EnvBin: none}, []server.Kind{"local"}},
		"no such kind at all": {map[string]string{server.EnvServer: "cloud"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(server.EnvURL, "")
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			_, err := server.Choose(t.Context(), server.Options{})
			var e *server.UnavailableError
			if !errors.As(err, &e) {
				t.Fatalf("error %v; want an UnavailableError", err)
			}
			var tried []server.Kind
			for _, r := range e.Reasons {
				tried = append(tried, r.Kind)
				if !errors.Is(err, r.Err) {
					t.Errorf("%v is not to be found with errors.Is", r.Err)
				}
			}
			if diff := cmp.Diff(c.tried, tried); diff != "" {
				t.Errorf("tried (-want +got):\n%s", diff)
			}
			for _, way := range []string{server.EnvURL, server.EnvBin, "apt-get install postgresql", "start Docker", server.EnvImage, server.EnvServer} {
				if !strings.Contains(err.Error(), way) {
					t.Errorf("the error does not mention %s:\n%v", way, err)
				}
			}
		})
	}
}

func TestInstallations(t *testing.T) {
	for name, c := range map[string]struct {
		says    string
		missing string
		want    server.Installation
		problem string
	}{
		"release":     {says: "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", want: server.Installation{Version: "15.14", Major: 15}},
		"beta":        {says: "postgres (PostgreSQL) 18beta1", want: server.Installation{Version: "18beta1", Major: 18}},
		"oldest":      {says: "postgres (PostgreSQL) 14.0", want: server.Installation{Version: "14.0", Major: 14}},
		"too old":     {says: "postgres (PostgreSQL) 13.21", problem: "older than 14"},
		"of old form": {says: "postgres (PostgreSQL) 9.6.24", problem: "older than 14"},
		"nonsense":    {says: "postgres is a shell script", problem: "unknown answer"},
		"client only": {says: "postgres (PostgreSQL) 15.14", missing: "initdb", problem: "initdb"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, program := range []string{"postgres", "initdb", "pg_ctl"} {
				if program == c.missing {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\necho '"+c.says+"'\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv(server.EnvBin, dir)
			got, err := server.Installations(t.Context())
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("error %v; want one about %q", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.want.BinDir = dir
			if diff := cmp.Diff([]server.Installation{c.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInstallationsOrder(t *testing.T) {
	t.Parallel()
	found := []server.Installation{{"/path", "15.2", 15}, {"/usr/14", "14.9", 14}, {"/usr/15", "15.9", 15}, {"/usr/17", "17.1", 17}}
	want := []server.Installation{{"/usr/17", "17.1", 17}, {"/path", "15.2", 15}, {"/usr/14", "14.9", 14}}
	if diff := cmp.Diff(want, server.NewestFirst(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
