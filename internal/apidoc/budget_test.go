package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a download of the module may hold; about a third above what it held when these were written.
const (
	maxFiles = 565
	maxBytes = 2_600_000
)

// leftOut are directories that git does not keep.
var leftOut = []string{".git", ".tmp", "bin"}

// TestBudget: whoever imports one package downloads all of the module, with its tests and vectors.
func TestBudget(t *testing.T) {
	files, bytes, err := size(root)
	if err != nil {
		t.Fatal(err)
	}
	if files > maxFiles || bytes > maxBytes {
		t.Errorf("the module has %d files of %d bytes, its budget is %d and %d", files, bytes, maxFiles, maxBytes)
	}
	// A walk that misses the module would be within any budget.
	if files < maxFiles/4 || bytes < maxBytes/4 {
		t.Errorf("the module seems to have %d files of %d bytes only", files, bytes)
	}
}

// size walks what the go command packs: everything but modules of their own.
func size(root string) (files int, bytes int64, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return whether(path, path != root)
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() {
			files, bytes = files+1, bytes+info.Size()
		}
		return err
	})
	return files, bytes, err
}

// whether a directory below the root is walked into.
func whether(dir string, below bool) error {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	if below && (err == nil || slices.Contains(leftOut, filepath.Base(dir))) {
		return filepath.SkipDir
	}
	return nil
}
