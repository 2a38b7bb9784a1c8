package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is where the module begins, seen from the directory of these tests.
const root = "../.."

func TestRender(t *testing.T) {
	want, err := os.ReadFile("testdata/sample.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := render(pkg{module + "/sample", "testdata/sample"})
	if diff := cmp.Diff(string(want), got); diff != "" || err != nil {
		t.Errorf("error %v, declarations (-want +got):\n%s", err, diff)
	}
}

// TestCompare: a change, a new package and one that is gone are each named.
func TestCompare(t *testing.T) {
	stored := map[string]string{"same.txt": "a\n", "changed.txt": "a\nb\nb\n", "gone.txt": "x\n"}
	wanted := map[string]string{"same.txt": "a\n", "changed.txt": "a\nb\nc\n", "new.txt": "y\n"}
	err := compare(stored, wanted)
	if !errors.Is(err, errStale) {
		t.Fatalf("error %v, want errStale", err)
	}
	_, lines, _ := strings.Cut(err.Error(), "\n")
	want := "changed.txt:\n-b\n+c\ngone.txt:\n-x\nnew.txt:\n+y"
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if err := compare(wanted, wanted); err != nil {
		t.Errorf("nothing differs: %v", err)
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir() + "/api"
	for _, wanted := range []map[string]string{{"a.txt": "1", "b.txt": "2"}, {"b.txt": "3"}, {}} {
		stored, err := read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(dir, stored, wanted); err != nil {
			t.Fatal(err)
		}
		got, err := read(dir)
		if diff := cmp.Diff(wanted, got); diff != "" || err != nil {
			t.Errorf("error %v, files (-want +got):\n%s", err, diff)
		}
	}
}

// TestPublic: every package is either promised to applications, and then has a snapshot, or out of their reach.
func TestPublic(t *testing.T) {
	packages, err := public(root)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := read(root + "/" + folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if _, ok := stored[p.file()]; !ok {
			t.Errorf("%s has no api/%s: run make api", p.path, p.file())
		}
		delete(stored, p.file())
	}
	for name := range stored {
		t.Errorf("api/%s is of no package: run make api", name)
	}
}
