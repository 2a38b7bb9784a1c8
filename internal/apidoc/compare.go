package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// errStale says what to do about every difference.
var errStale = errors.New("api/*.txt do not say what the packages declare: run make api, and read the difference as a user of the module would")

// compare names each line that only one side has.
func compare(stored, wanted map[string]string) error {
	files := maps.Clone(stored)
	maps.Copy(files, wanted)
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if stored[name] == wanted[name] {
			continue
		}
		differences = append(differences, name+":")
		differences = append(differences, without("-", stored[name], wanted[name])...)
		differences = append(differences, without("+", wanted[name], stored[name])...)
	}
	if len(differences) == 0 {
		return nil
	}
	return fmt.Errorf("%w\n%s", errStale, strings.Join(differences, "\n"))
}

// without lists the lines of a text, but for blank ones, that another does not have as often.
func without(mark, text, other string) (lines []string) {
	count := map[string]int{}
	for line := range strings.Lines(other) {
		count[line]++
	}
	for line := range strings.Lines(text) {
		if count[line]--; count[line] < 0 && line != "\n" {
			lines = append(lines, mark+strings.TrimRight(line, "\n"))
		}
	}
	return lines
}
