// Package operate is the mechanism of the operator's command where it goes beyond package outbox: it examines a database,
// and follows events as they move.
package operate

import (
	"io/fs"
	"regexp"
	"strings"
)

// Schema is what a set of migrations leaves in a database, as far as it can be told from their text.
type Schema struct {
	// Versions are the leading digits of the files, in order.
	Versions  []string
	Functions map[string]Function
	// Indexes and Triggers hold the file of each by name.
	Indexes, Triggers map[string]string
}

// Function is one as a file makes it. Body is empty where the server does not keep it as text.
type Function struct{ File, Body string }

const (
	up   = "-- migrate:up"
	down = "-- migrate:down"
)

var (
	statement = regexp.MustCompile(`(?m)^(create|drop) (?:or replace )?(?:unique )?(function|index|trigger) (?:public\.)?(\w+)`)
	body      = regexp.MustCompile(`(?s)\bas \$\$(.*?)\$\$`)
)

// ReadSchema reads migration files in the order of their names.
func ReadSchema(files fs.FS) (Schema, error) {
	s := Schema{Functions: map[string]Function{}, Indexes: map[string]string{}, Triggers: map[string]string{}}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return s, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return s, err
		}
		version, _, _ := strings.Cut(name, "_")
		s.Versions = append(s.Versions, version)
		s.apply(name, upPart(string(text)))
	}
	return s, nil
}

func upPart(text string) string {
	_, text, _ = strings.Cut(text, up)
	text, _, _ = strings.Cut(text, down)
	return text
}

// apply follows the statements of one file. What stands between two of them belongs to the first.
func (s *Schema) apply(file, text string) {
	found := statement.FindAllStringSubmatchIndex(text, -1)
	for i, at := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		made, kind, name := text[at[2]:at[3]] == "create", text[at[4]:at[5]], text[at[6]:at[7]]
		s.forget(kind, name)
		if made {
			s.note(kind, name, file, text[at[0]:end])
		}
	}
}

func (s *Schema) forget(kind, name string) {
	switch kind {
	case "index":
		delete(s.Indexes, name)
	case "trigger":
		delete(s.Triggers, name)
	case "function":
		delete(s.Functions, name)
	}
}

func (s *Schema) note(kind, name, file, text string) {
	switch kind {
	case "index":
		s.Indexes[name] = file
	case "trigger":
		s.Triggers[name] = file
	case "function":
		s.Functions[name] = Function{File: file, Body: bodyOf(text)}
	}
}

func bodyOf(text string) string {
	if m := body.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
