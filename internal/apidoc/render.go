package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
)

// render writes a package's exported declarations, without any comment, in an order that moving code about does not change.
func render(p pkg) (string, error) {
	listed, err := build.ImportDir(p.dir, 0)
	if err != nil {
		return "", err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range listed.GoFiles {
		// Without parser.ParseComments there is no documentation to strip.
		file, err := parser.ParseFile(fset, filepath.Join(p.dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		files = append(files, file)
	}
	documented, err := doc.NewFromFiles(fset, files, p.path)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "package %s // import %q\n", documented.Name, p.path)
	for _, decl := range declarations(documented) {
		var one bytes.Buffer
		if err := printer.Fprint(&one, fset, decl); err != nil {
			return "", err
		}
		text.WriteString("\n" + blank.ReplaceAllString(one.String(), "\n") + "\n")
	}
	formatted, err := format.Source(text.Bytes())
	return string(formatted), err
}

// blank lines are where comments were, and part what is aligned: with them a new comment would look like a change.
var blank = regexp.MustCompile(`\n\s*\n`)

// declarations lists constants, variables, functions and then types, each type with what belongs to it.
func declarations(p *doc.Package) (all []ast.Decl) {
	values := func(list []*doc.Value) {
		for _, v := range list {
			all = append(all, v.Decl)
		}
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			all = append(all, f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, t := range p.Types {
		all = append(all, t.Decl)
		values(t.Consts)
		values(t.Vars)
		funcs(t.Funcs)
		funcs(t.Methods)
	}
	return all
}
