package catalogue_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/catalogue"
	"github.com/openlup/pgrail/db"
)

// TestRecordedHashes recomputes every hash. If it fails for a released migration, undo the edit and write a new one; for a
// new one, run "go generate ./catalogue".
func TestRecordedHashes(t *testing.T) {
	if err := catalogue.Check(db.Migrations); err != nil {
		t.Error(err)
	}
}

// copied is the module's migrations, to be tampered with.
func copied(t *testing.T) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for _, m := range catalogue.Chain() {
		text, err := fs.ReadFile(db.Migrations, m.File)
		if err != nil {
			t.Fatal(err)
		}
		files[m.File] = &fstest.MapFile{Data: text}
	}
	return files
}

func TestCheckNamesTheDrift(t *testing.T) {
	victim := catalogue.Of("identity")[0]
	tests := map[string]struct {
		tamper func(fstest.MapFS)
		want   catalogue.DriftError
	}{
		"edited":     {func(files fstest.MapFS) { files[victim.File].Data = []byte("x") }, catalogue.DriftError{File: victim.File, Recorded: victim.SHA256, Found: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}},
		"missing":    {func(files fstest.MapFS) { delete(files, victim.File) }, catalogue.DriftError{File: victim.File, Recorded: victim.SHA256}},
		"unrecorded": {func(files fstest.MapFS) { files["9999_x.sql"] = &fstest.MapFile{} }, catalogue.DriftError{File: "9999_x.sql", Found: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := copied(t)
			if err := catalogue.Check(files); err != nil {
				t.Fatalf("untouched: %v", err)
			}
			test.tamper(files)
			var drift *catalogue.DriftError
			err := catalogue.Check(files)
			if !errors.As(err, &drift) {
				t.Fatalf("Check = %v: want a DriftError", err)
			}
			if diff := cmp.Diff(test.want, *drift); diff != "" || !strings.Contains(err.Error(), test.want.File) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestCheckAppliedNamesTheDrift(t *testing.T) {
	chain := catalogue.Chain()
	recorded := map[string]string{chain[0].File: chain[0].SHA256, "9999_newer.sql": "whatever"}
	if err := catalogue.CheckApplied(recorded); err != nil {
		t.Errorf("as released: %v", err)
	}
	recorded[chain[1].File] = "other"
	var drift *catalogue.DriftError
	if err := catalogue.CheckApplied(recorded); !errors.As(err, &drift) || drift.File != chain[1].File || drift.Recorded != "other" {
		t.Errorf("edited: %v, want a DriftError for %s", err, chain[1].File)
	}
}

// TestListsAreProjectionsOfTheChain: together the capabilities have every migration once, with the chain's positions.
func TestListsAreProjectionsOfTheChain(t *testing.T) {
	want := []string{"outbox", "identity", "webhook"}
	if diff := cmp.Diff(want, catalogue.Capabilities()); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	var together []catalogue.Migration
	for _, capability := range catalogue.Capabilities() {
		part := catalogue.Of(capability)
		if !slices.IsSortedFunc(part, byPosition) {
			t.Errorf("%s is not in the chain's order", capability)
		}
		together = append(together, part...)
	}
	slices.SortFunc(together, byPosition)
	if diff := cmp.Diff(catalogue.Chain(), together); diff != "" {
		t.Errorf("all lists together (-chain +lists):\n%s", diff)
	}
	if unknown := catalogue.Of("unknown"); len(unknown) > 0 {
		t.Errorf("unknown capability has %v", unknown)
	}
}

func byPosition(a, b catalogue.Migration) int { return a.Position - b.Position }

func TestAMigrationIsDescribed(t *testing.T) {
	for capability, want := range map[string]catalogue.Migration{
		"identity": {ID: "0020_identity_tables", Path: "identity/tables", File: "0020_identity_tables.sql"},
		"webhook":  {ID: "0030_webhook_inbox", Path: "webhook/inbox", File: "0030_webhook_inbox.sql"},
	} {
		got := catalogue.Of(capability)[0]
		want.Position = 1 + slices.IndexFunc(catalogue.Chain(), func(m catalogue.Migration) bool { return m.File == got.File })
		want.SHA256 = got.SHA256
		if diff := cmp.Diff(want, got); diff != "" || len(got.SHA256) != 64 || got.Capability() != capability {
			t.Errorf("first of %s, of %q (-want +got):\n%s", capability, got.Capability(), diff)
		}
	}
	catalogue.Of("identity")[0].File = "changed"
	if catalogue.Of("identity")[0].File == "changed" {
		t.Error("a caller's change reaches the catalogue")
	}
}
