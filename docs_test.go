// Package pgrail_test keeps the documents true: their code is compiled and run, and what they name exists.
package pgrail_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/openlup/pgrail/internal/pgtest/server"
)

// TestMain gives the examples the database that their DATABASE_URL names.
func TestMain(m *testing.M) {
	status, err := withDatabase(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func withDatabase(run func() int) (status int, err error) {
	ctx := context.Background()
	s, err := server.Choose(ctx, server.Options{})
	if err != nil {
		return 1, err
	}
	defer s.Close()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return 1, err
	}
	defer conn.Close(ctx)
	name := "pgrail_docs_" + strings.ToLower(rand.Text()[:12])
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return 1, err
	}
	if err := os.Setenv("DATABASE_URL", s.URL(name)); err != nil {
		return 1, err
	}
	status = run()
	_, err = conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	return status, err
}

// documents are what this file looks after.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range append(names, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

var (
	codeBlock = regexp.MustCompile("(?s)(?:<!-- ([^ \n]+) -->\n)?```go\n(.*?)```")
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
	link      = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
	target    = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
	testName  = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)_?[A-Z][A-Za-z0-9_]*`)
)

// TestCodeInDocs wants a comment above each block of Go that names the file it is compiled in.
func TestCodeInDocs(t *testing.T) {
	for name, text := range documents(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			source, err := os.ReadFile(block[1])
			if err != nil {
				t.Errorf("%s: no file named above the code that begins with %.40q: %v", name, block[2], err)
				continue
			}
			if !strings.Contains(flat(string(source)), flat(block[2])) {
				t.Errorf("%s: the code that begins with %.40q is not in %s", name, block[2], block[1])
			}
		}
	}
}

// flat leaves out the indentation.
func flat(code string) string {
	return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(code, "")
}

// TestPathsInDocs looks at links, and at words in code spans and folder maps that look like paths.
func TestPathsInDocs(t *testing.T) {
	for name, text := range documents(t) {
		for _, path := range paths(text) {
			found, err := filepath.Glob(path)
			if err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which does not exist", name, path)
			}
		}
		for _, match := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), match[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			}
		}
	}
}

// named is what a document has in code spans and fences, but for Go.
func named(text string) string {
	text = codeBlock.ReplaceAllString(text, "")
	parts := strings.Split(text, "```")
	spans := codeSpan.FindAllString(text, -1)
	for i := 1; i < len(parts); i += 2 { // what is inside of fences
		spans = append(spans, parts[i])
	}
	return strings.ReplaceAll(strings.Join(spans, "\n"), "`", " ")
}

func paths(text string) (found []string) {
	for _, word := range strings.Fields(named(text)) {
		if looksLikePath(word) {
			found = append(found, word)
		}
	}
	return found
}

var pathLike = regexp.MustCompile(`^\.?[a-zA-Z0-9_*-]+(/[a-zA-Z0-9_.*-]+)*(/|\.(go|md|sql|mod|sum|yaml|jsonl))$|^(cmd|db|docs|examples|identity|internal|migrate|outbox|tools|webhook|bench)/[a-zA-Z0-9_./*-]+$`)

// looksLikePath leaves out names that a reader is to fill in.
func looksLikePath(word string) bool {
	return pathLike.MatchString(word) && !strings.Contains(word, "NNNN")
}

func TestTargetsInDocs(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range documents(t) {
		for _, match := range target.FindAllStringSubmatch(named(text), -1) {
			if !regexp.MustCompile(`(?m)^` + match[1] + `:`).Match(makefile) {
				t.Errorf("%s names make %s, which does not exist", name, match[1])
			}
		}
	}
}

// TestTestsInDocs keeps promises from naming tests that are gone.
func TestTestsInDocs(t *testing.T) {
	known := testFunctions(t)
	for name, text := range documents(t) {
		for _, test := range testName.FindAllString(text, -1) {
			if !slices.Contains(known, test) {
				t.Errorf("%s names %s, which does not exist", name, test)
			}
		}
	}
}

func testFunctions(t *testing.T) (names []string) {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllStringSubmatch(string(source), -1) {
			names = append(names, match[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
