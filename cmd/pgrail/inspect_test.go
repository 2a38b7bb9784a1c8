package main

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/internal/pgtest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	s.run("status")
	w.populate()
	s.run("status")
	s.run("status", "--limit=1", "--top=1", "--idle=31h", "--older=1d")
	s.run("status", "--json")
	s.compare("status")
}

func TestShow(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	s.run("show", id(3).String())
	s.run("show", id(7).String())
	s.run("show", "--json", id(8).String())
	s.run("show", uuid.Max.String())
	s.compare("show")
}

func TestExplain(t *testing.T) {
	t.Parallel()
	s, w := newTranscript(t)
	w.populate()
	for n := byte(1); n <= 8; n++ {
		s.run("explain", id(n).String())
	}
	s.run("explain", id(10).String())
	s.run("explain", order(1), "--behind=1")
	s.run("explain", order(2))
	s.run("explain", order(4))
	s.run("explain", uuid.Max.String())
	s.run("explain", "--json", id(2).String())
	s.run("explain", "--json", id(4).String())
	s.compare("explain")
}

// Scripts parse each command's JSON, also where there is nothing, and in a database with unusual settings.
func TestJSONIsJSON(t *testing.T) {
	t.Parallel()
	d := pgtest.New(t, pgtest.Hostile())
	for _, args := range [][]string{
		{"status"}, {"migrate", "status"}, {"migrate", "up"}, {"dormant", "list"}, {"policy", "list"}, {"doctor"}, {"version"},
		{"redrive", "--all", "--dry-run"}, {"discard", "--all", "--dry-run"}, {"prune", "--keep=1d", "--dry-run"}, {"prune", "--keep=1d", "--yes"},
		{"redrive", "--all", "--yes", "--reason=x"},
	} {
		r := pgrail(t, d.URL, append(args, "--json")...)
		if r.code != 0 || r.err != "" || !json.Valid([]byte(r.out)) {
			t.Errorf("%v: exit status %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
}
