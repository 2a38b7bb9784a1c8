package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/openlup/pgrail/outbox"
)

// table writes aligned columns. Whatever stands in the database may stand in a cell, so control characters, with which
// a text could move the cursor or colour the screen, do not get through.
type table struct {
	out     io.Writer
	written bytes.Buffer
	w       *tabwriter.Writer
}

func newTable(out io.Writer) *table {
	t := &table{out: out}
	t.w = tabwriter.NewWriter(&t.written, 0, 0, 2, ' ', 0)
	return t
}

func (t *table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, cell(fmt.Sprint(c)))
	}
	fmt.Fprintln(t.w)
}

// line writes a text across the columns; the next rows are aligned anew.
func (t *table) line(format string, args ...any) {
	_ = t.w.Flush() // into memory
	fmt.Fprintln(&t.written, lines(fmt.Sprintf(format, args...)))
}

// flush writes everything, without the blanks that fill up last columns.
func (t *table) flush() error {
	_ = t.w.Flush()
	for line := range strings.Lines(t.written.String()) {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// cell is text on one line.
func cell(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text)
}

// lines is text that may have several.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = cell(all[i])
	}
	return strings.Join(all, "\n")
}

// span says a duration in its two largest units.
func span(d time.Duration) string {
	d = d.Abs().Round(time.Second)
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.size && u.name != "s" {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.size, u.name)
		if rest := d % u.size; i+1 < len(units) && rest/units[i+1].size > 0 {
			text += fmt.Sprintf("%d%s", rest/units[i+1].size, units[i+1].name)
		}
		return text
	}
	return ""
}

// due says when an event may be claimed; negative for since when.
func due(in time.Duration) string {
	if in > 0 {
		return "in " + span(in)
	}
	return "for " + span(in)
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// seconds is a duration in JSON: to the millisecond.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// capped says a count that stops at limit.
func capped(n int64, limit int) string {
	if n >= int64(limit) {
		return fmt.Sprintf("%d+", n)
	}
	return fmt.Sprint(n)
}

func orDash(there bool, text string) string {
	if !there {
		return "-"
	}
	return text
}

// rate is a number per second, with as many digits as mean something.
func rate(perSecond float64) string {
	if perSecond >= 10 || perSecond == 0 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.2g", perSecond)
}

// counted says a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// reasons are why an event does not move, in words.
var reasons = map[outbox.Reason]string{
	outbox.ReasonProcessed:    "processed",
	outbox.ReasonDiscarded:    "discarded",
	outbox.ReasonInFlight:     "in flight",
	outbox.ReasonLeaseExpired: "its worker has not come back",
	outbox.ReasonHalted:       "halted",
	outbox.ReasonBlocked:      "blocked",
	outbox.ReasonNotDue:       "not due yet",
	outbox.ReasonClaimable:    "due, and no worker has taken it",
}
