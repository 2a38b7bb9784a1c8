package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var (
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
	fence     = regexp.MustCompile("(?s)```(?:sh|text)\n(.*?)```")
	call      = regexp.MustCompile("(?:^|[\\s`('\"])pgrail ((?:[a-z]|--)[^`\n|;&#()]*)")
	flagAlone = regexp.MustCompile("^`(--[a-z][a-z-]*)")
	flagWord  = regexp.MustCompile(`^--([a-z][a-z-]*)(=|$)`)
)

// said is what documents and messages have of command lines, in code spans and fences; of Go and SQL all of it counts.
func said(t *testing.T) map[string][]string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/monitoring/*.yaml", "*.go",
		"../../internal/operate/*.go", "../../migrate/*.go", "../../outbox/*.go", "../../identity/pgidentity/*.go", "../../webhook/inbox/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	texts := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.HasSuffix(file, "_test.go"):
		case strings.HasSuffix(file, ".md"):
			texts[file] = append(fence.FindAllString(string(text), -1), codeSpan.FindAllString(fence.ReplaceAllString(string(text), ""), -1)...)
		default:
			texts[file] = []string{string(text)}
		}
	}
	return texts
}

func model(t *testing.T) *kong.Node {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("pgrail"), kong.Vars{"migrations_table": "public.t"})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Node
}

func hasFlag(node *kong.Node, name string) bool {
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if flag.Name == name {
				return true
			}
		}
	}
	return name == "help"
}

// TestCommandsInDocs: each command line that a document or a message names has its commands and its flags, and the manual
// names every command.
func TestCommandsInDocs(t *testing.T) {
	t.Parallel()
	root := model(t)
	lines, manual := 0, map[string]bool{}
	for file, texts := range said(t) {
		for _, text := range texts {
			for _, match := range call.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(match[1])
				if !strings.HasPrefix(words[0], "-") && childOf(root, words[0]) == nil {
					if strings.HasSuffix(file, ".md") {
						t.Errorf("%s: pgrail %s: there is no such command", file, match[1])
					}
					continue // prose in a comment
				}
				lines++
				node, _ := reach(root, words)
				for _, word := range words {
					if flag := flagWord.FindStringSubmatch(word); flag != nil && !hasFlag(node, flag[1]) {
						t.Errorf("%s: pgrail %s: %s has no flag --%s", file, match[1], node.FullPath(), flag[1])
					}
				}
				if strings.HasSuffix(file, "docs/operating.md") {
					manual[words[0]] = true
				}
			}
		}
	}
	if lines < 50 {
		t.Errorf("%d command lines are found; is the search still good?", lines)
	}
	for _, command := range root.Children {
		if !command.Hidden && !manual[command.Name] {
			t.Errorf("docs/operating.md does not name pgrail %s", command.Name)
		}
	}
}

// TestFlagsInDocs: a flag that stands for itself belongs to some command.
func TestFlagsInDocs(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"--help": true}
	var visit func(*kong.Node)
	visit = func(node *kong.Node) {
		for _, flag := range node.Flags {
			known["--"+flag.Name] = true
		}
		for _, child := range node.Children {
			visit(child)
		}
	}
	visit(model(t))
	found := 0
	for file, texts := range said(t) {
		for _, text := range texts {
			flag := flagAlone.FindStringSubmatch(text)
			if flag == nil || !strings.Contains(file, "operating.md") {
				continue
			}
			if found++; !known[flag[1]] {
				t.Errorf("%s names %s, which no command has", file, flag[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("%d flags are found; is the search still good?", found)
	}
}
