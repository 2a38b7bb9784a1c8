package report

import (
	"fmt"
	"math"
)

// A Limit is a bound that a figure is held to.
type Limit struct {
	value float64
	least bool // the figure may not be below; else it may not be above
	unit  string
}

// AtMost is the limit of figures of which less is better.
func AtMost(value float64, unit string) Limit { return Limit{value, false, unit} }

// AtLeast is the limit of figures of which more is better.
func AtLeast(value float64, unit string) Limit { return Limit{value, true, unit} }

func (l Limit) String() string {
	word := "at most"
	if l.least {
		word = "at least"
	}
	return fmt.Sprintf("%s %s%s", word, Number(l.value), l.unit)
}

// missedBy is how far the figure lies on the wrong side, as a share of the limit;
// 0 when it is met. What could not be measured is missed by everything.
func (l Limit) missedBy(figure float64) float64 {
	if math.IsNaN(figure) {
		return math.Inf(1)
	}
	over := figure/l.value - 1
	if l.least {
		over = -over
	}
	return max(0, over)
}

type verdict struct {
	what   string
	figure float64
	limit  Limit
}

func (v verdict) String() string {
	missed := v.limit.missedBy(v.figure)
	switch {
	case missed == 0:
		return "met"
	case math.IsInf(missed, 1):
		return "MISSED: no figure"
	}
	return fmt.Sprintf("MISSED by %.3g %%", 100*missed)
}

// Target holds a figure to its limit; Summary prints the verdict.
func (r *Report) Target(what string, figure float64, limit Limit) {
	r.verdicts = append(r.verdicts, verdict{what, figure, limit})
}

// Summary prints all targets and returns how many were missed.
func (r *Report) Summary() (missed int) {
	if len(r.verdicts) == 0 {
		return 0
	}
	r.Heading("Targets")
	if r.Unjudged {
		r.Note("Not judged: this run's sizes are too small to say anything.")
		return 0
	}
	var rows [][]any
	for _, v := range r.verdicts {
		if v.limit.missedBy(v.figure) > 0 {
			missed++
		}
		rows = append(rows, []any{v.what, Number(v.figure) + v.limit.unit, v.limit, v})
	}
	r.Note("%d of %d met.", len(rows)-missed, len(rows))
	r.Table([]string{"target", "measured", "to reach", "verdict"}, rows...)
	return missed
}
