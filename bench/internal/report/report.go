// Package report prints what was measured as Markdown: tables of raw figures, and
// every target with whether it was met or by how much it was missed.
package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Report writes each table as soon as it is complete, so that an interrupted run
// leaves what it had found. It is not safe for concurrent use.
type Report struct {
	w        io.Writer
	verdicts []verdict
	// Unjudged leaves out the verdicts: a run on toy sizes proves that the
	// benchmark works and nothing about the rail.
	Unjudged bool
}

// New returns a report that writes to w.
func New(w io.Writer) *Report { return &Report{w: w} }

// Heading opens a section.
func (r *Report) Heading(title string) { fmt.Fprintf(r.w, "\n## %s\n", title) }

// Note adds a paragraph: how the figures were made, what they mean.
func (r *Report) Note(format string, args ...any) {
	fmt.Fprintf(r.w, "\n"+format+"\n", args...)
}

// Table writes a table. Cells that are numbers stand to the right, at three
// significant digits or more.
func (r *Report) Table(columns []string, rows ...[]any) {
	cells := [][]string{columns}
	right := make([]bool, len(columns))
	for _, row := range rows {
		line := make([]string, len(columns))
		for i, cell := range row {
			var number bool
			line[i], number = format(cell)
			right[i] = right[i] || number
		}
		cells = append(cells, line)
	}
	fmt.Fprintln(r.w)
	writeAligned(r.w, cells, right)
}

// writeAligned pads the cells: the output is read in a terminal as often as
// rendered.
func writeAligned(w io.Writer, cells [][]string, right []bool) {
	widths := make([]int, len(right))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	for n, line := range cells {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if right[i] {
				fmt.Fprintf(w, "| %s%s ", pad, cell)
			} else {
				fmt.Fprintf(w, "| %s%s ", cell, pad)
			}
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			writeRule(w, widths, right)
		}
	}
}

func writeRule(w io.Writer, widths []int, right []bool) {
	for i, width := range widths {
		rule := strings.Repeat("-", width+1)
		if right[i] {
			fmt.Fprintf(w, "|%s:", rule)
		} else {
			fmt.Fprintf(w, "|%s-", rule)
		}
	}
	fmt.Fprintln(w, "|")
}
