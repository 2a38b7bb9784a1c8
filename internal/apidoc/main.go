// Command apidoc keeps api/*.txt, one file for each package that applications may import, with all that it declares.
// A change of what the module promises shows there as a change of text, which a reviewer cannot overlook.
//
//	go run ./internal/apidoc          writes the files anew
//	go run ./internal/apidoc -check   fails when they do not say what the code declares
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module = "github.com/openlup/pgrail"
	folder = "api"
)

func main() {
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	packages, err := public(".")
	if err != nil {
		return err
	}
	wanted := map[string]string{}
	for _, p := range packages {
		if wanted[p.file()], err = render(p); err != nil {
			return err
		}
	}
	stored, err := read(folder)
	if err != nil {
		return err
	}
	if check {
		return compare(stored, wanted)
	}
	return write(folder, stored, wanted)
}

// pkg is a package that applications may import.
type pkg struct{ path, dir string }

// file names what a package's declarations are kept in: webhook/inbox in webhook-inbox.txt.
func (p pkg) file() string {
	return strings.ReplaceAll(strings.TrimPrefix(p.path, module+"/"), "/", "-") + ".txt"
}

// public lists what is neither a command nor internal, nor tests alone.
func public(root string) ([]pkg, error) {
	list := exec.Command("go", "list", "-f", `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}} {{.Dir}}{{end}}`, "./...")
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []pkg
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(strings.Split(path, "/"), "internal") {
			packages = append(packages, pkg{path, dir})
		}
	}
	return packages, nil
}

// read returns the texts of a folder by file name; a folder that is missing is an empty one.
func read(dir string) (map[string]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts[filepath.Base(name)] = string(text)
	}
	return texts, err
}

// write makes the folder say what is wanted, and forgets packages that are gone.
func write(dir string, stored, wanted map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name := range stored {
		if _, ok := wanted[name]; !ok {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for name, text := range wanted {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
