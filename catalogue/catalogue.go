// Package catalogue lists pgrail's migrations with their recorded hashes: the whole chain, and per capability the part
// that belongs to it: outbox, identity and webhook. It tells an edited migration from the one that was released; package
// migrate refuses to run where it finds one.
//
// There is one chain. A capability's list is a projection of it, so positions have gaps there, and applying a list alone
// is not enough: identity and webhook enqueue events and so need outbox.
package catalogue

//go:generate sh -c "cd ../db/migrations && sha256sum *.sql > ../../catalogue/migrations.sum"

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Migration is one file of the chain.
type Migration struct {
	ID       string // the file's name without its ending: 0020_identity_tables
	Path     string // capability and name: identity/tables
	Position int    // in the whole chain, from 1
	SHA256   string // of the file as released: 64 hexadecimal digits, lower case
	File     string // the file's name in db.Migrations: 0020_identity_tables.sql
}

// Capability is the part of pgrail that the migration belongs to, the first element of Path.
func (m Migration) Capability() string {
	capability, _, _ := strings.Cut(m.Path, "/")
	return capability
}

// sums is what sha256sum printed when the files were released; "sha256sum -c" in db/migrations checks it as well.
//
//go:embed migrations.sum
var sums string

var chain = parse(sums)

// parse panics on a line that is none of sha256sum's: the text is compiled in, and a test reads it.
func parse(sums string) (all []Migration) {
	for line := range strings.Lines(sums) {
		var m Migration
		if _, err := fmt.Sscanf(line, "%64s  %s\n", &m.SHA256, &m.File); err != nil {
			panic(fmt.Sprintf("catalogue: line %q: %v", line, err))
		}
		m.ID = strings.TrimSuffix(m.File, ".sql")
		_, name, _ := strings.Cut(m.ID, "_")
		m.Path = strings.Replace(name, "_", "/", 1)
		m.Position = len(all) + 1
		all = append(all, m)
	}
	return all
}

// Chain is every migration in the order of application.
func Chain() []Migration { return slices.Clone(chain) }

// Of is the part of the chain that belongs to a capability, in the chain's order; empty for an unknown one.
func Of(capability string) (part []Migration) {
	for _, m := range chain {
		if m.Capability() == capability {
			part = append(part, m)
		}
	}
	return part
}

// Capabilities are the names that Of knows, in the order in which the chain first has them.
func Capabilities() (names []string) {
	for _, m := range chain {
		if !slices.Contains(names, m.Capability()) {
			names = append(names, m.Capability())
		}
	}
	return names
}

// DriftError says which migration is not what was released.
type DriftError struct {
	File     string
	Recorded string // the hash it should have; empty for a file that was never recorded
	Found    string // the hash it has; empty for a file that is missing
}

func (e *DriftError) Error() string {
	switch {
	case e.Recorded == "":
		return fmt.Sprintf("catalogue: migration %s is in no release: its hash %s is not recorded", e.File, e.Found)
	case e.Found == "":
		return fmt.Sprintf("catalogue: migration %s is missing", e.File)
	}
	return fmt.Sprintf("catalogue: migration %s was edited after its release: hash %s, recorded is %s", e.File, e.Found, e.Recorded)
}

// Check hashes the migrations in files, normally db.Migrations, and answers a [DriftError] for the first that differs from
// its record, is missing, or has none.
func Check(files fs.FS) error {
	found, err := hashes(files)
	if err != nil {
		return err
	}
	for _, m := range chain {
		if found[m.File] != m.SHA256 {
			return &DriftError{File: m.File, Recorded: m.SHA256, Found: found[m.File]}
		}
		delete(found, m.File)
	}
	for file, hash := range found {
		return &DriftError{File: file, Found: hash}
	}
	return nil
}

// CheckApplied compares hashes by file name, as a database recorded them when the files were applied, with the chain, and
// answers a [DriftError] for the first file that has another hash now: Recorded is then the database's. Files that the
// chain does not know were applied by a newer pgrail and pass.
func CheckApplied(recorded map[string]string) error {
	for _, m := range chain {
		if hash, applied := recorded[m.File]; applied && hash != m.SHA256 {
			return &DriftError{File: m.File, Recorded: hash, Found: m.SHA256}
		}
	}
	return nil
}

func hashes(files fs.FS) (map[string]string, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		found[name] = hex.EncodeToString(sum[:])
	}
	return found, nil
}
