package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// imported is what go list says of a package.
type imported struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Imports    []string
	Deps       []string
}

// inModule returns every package that this module's are built from, by path.
func inModule(t *testing.T) map[string]imported {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Module,Imports,Deps", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]imported{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p imported
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// Modules that the packages of one kind are built from.
var (
	uuid   = []string{"github.com/google/uuid"}
	driver = []string{"github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5", "golang.org/x/text"}
	pool   = sorted(driver, "github.com/jackc/puddle/v2", "golang.org/x/sync")
	rail   = sorted(pool, "github.com/cenkalti/backoff/v5", "github.com/google/uuid")
	// The API of OpenTelemetry and what it is built from; its SDK is the application's choice.
	telemetry = sorted(rail, "go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace",
		"go.opentelemetry.io/auto/sdk", "github.com/cespare/xxhash/v2", "github.com/go-logr/logr", "github.com/go-logr/stdr")
	migrator = sorted(pool, "github.com/amacneil/dbmate/v2", "github.com/lib/pq")
)

func sorted(list []string, more ...string) []string {
	return slices.Sorted(slices.Values(slices.Concat(list, more)))
}

// price is what an application compiles, besides this module and the standard library, for importing a package.
var price = map[string][]string{
	"catalogue":           nil,
	"db":                  nil,
	"identity":            uuid,
	"identity/pgidentity": sorted(driver, uuid...),
	"identitytest":        sorted(uuid, "github.com/google/go-cmp"),
	"migrate":             migrator,
	"outbox":              rail,
	"outbox/event":        uuid,
	"outbox/outboxotel":   telemetry,
	"outboxtest":          sorted(rail, "github.com/google/go-cmp"),
	"webhook":             nil,
	"webhook/inbox":       rail,
	"webhooktest":         nil,
}

// kits are for tests and may import what belongs there.
var kits = []string{"identitytest", "outboxtest", "webhooktest"}

// TestPrice: an application pays for what it imports and for nothing else. A package that is not in the table fails.
func TestPrice(t *testing.T) {
	all := inModule(t)
	packages, err := public(root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, p := range packages {
		got[strings.TrimPrefix(p.path, module+"/")] = modules(all, p.path)
	}
	if diff := cmp.Diff(price, got); diff != "" {
		t.Errorf("modules that applications compile (-want +got):\n%s", diff)
	}
}

// modules lists where the dependencies of a package come from, but for this module and the standard library.
func modules(all map[string]imported, path string) (from []string) {
	for _, dep := range all[path].Deps {
		if p := all[dep]; !p.Standard && p.Module.Path != module {
			from = append(from, p.Module.Path)
		}
	}
	slices.Sort(from)
	return slices.Compact(from)
}

// TestOnlyKitsImportTesting: the flags of package testing have no place in a program.
func TestOnlyKitsImportTesting(t *testing.T) {
	all := inModule(t)
	packages, err := public(root)
	if err != nil {
		t.Fatal(err)
	}
	packages = append(packages, pkg{path: module + "/cmd/pgrail"})
	for _, p := range packages {
		isKit := slices.Contains(kits, strings.TrimPrefix(p.path, module+"/"))
		if has := slices.Contains(all[p.path].Deps, "testing"); has != isKit {
			t.Errorf("%s: is built with package testing: %t, is a kit: %t", p.path, has, isKit)
		}
	}
}

// aboveTheLine are internal packages that work on this module as a whole, from outside: databases for its tests come with the
// schema in them. Applications never compile them.
var aboveTheLine = []string{"internal/pgtest", "internal/pgtest/withdb"}

// TestInternalImportsNothingPublic keeps mechanism below what it serves, so that the public packages can convert into its types.
func TestInternalImportsNothingPublic(t *testing.T) {
	for path, p := range inModule(t) {
		own := strings.TrimPrefix(path, module+"/")
		if !strings.HasPrefix(own, "internal/") || path == own || slices.Contains(aboveTheLine, own) {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, module+"/") && !strings.HasPrefix(dep, module+"/internal/") {
				t.Errorf("%s depends on %s", own, strings.TrimPrefix(dep, module+"/"))
			}
		}
	}
}

// TestKitsAreForTests: no package that could be part of a program imports a kit.
func TestKitsAreForTests(t *testing.T) {
	for path, p := range inModule(t) {
		for _, kit := range kits {
			if slices.Contains(p.Imports, module+"/"+kit) {
				t.Errorf("%s imports %s", path, kit)
			}
		}
	}
}
