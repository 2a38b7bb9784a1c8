package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A fault is a column of the crash matrix. Its name is that of the test whose subtests are the steps.
type fault string

const (
	killed    fault = "TestKilledAtEachStep"
	before    fault = "TestCutBeforeEachCommit"
	after     fault = "TestCutAfterEachCommit"
	restarted fault = "TestRestartedAtEachStep"
	readOnly  fault = "TestReadOnlyAtEachStep"
)

var columns = []fault{killed, before, after, restarted, readOnly}

// A cell says what is so once the fault has struck, who goes on, and whether a handler begins again that had begun.
type cell struct {
	// committed means that the step is done all the same.
	committed bool
	who       who
	again     bool
}

// who goes on after a fault.
type who string

const (
	caller  who = "the caller repeats"
	itself  who = "the same worker"
	another who = "another worker"
	nobody  who = "nobody needs to"
)

// matrix is what docs/guarantees.md shows and the tests of this package hold against a server.
var matrix = map[step]map[fault]cell{
	enqueue: {
		killed: {false, caller, false}, before: {false, caller, false}, after: {true, caller, false},
		restarted: {false, caller, false}, readOnly: {false, caller, false},
	},
	claim: {
		killed: {true, another, false}, before: {false, itself, false}, after: {true, itself, false},
		restarted: {false, itself, false}, readOnly: {false, itself, false},
	},
	start: {
		killed: {true, another, true}, before: {true, nobody, false}, after: {true, nobody, false},
		restarted: {true, nobody, false}, readOnly: {true, nobody, false},
	},
	handler: {
		killed: {false, another, true}, before: {false, itself, true}, after: {true, nobody, false},
		restarted: {false, itself, true}, readOnly: {false, itself, true},
	},
	ack: {
		killed: {false, another, true}, before: {false, itself, false}, after: {true, itself, false},
		restarted: {false, itself, false}, readOnly: {false, itself, false},
	},
	extend: {
		killed: {false, another, true}, before: {false, itself, false}, after: {true, itself, false},
		restarted: {false, itself, false}, readOnly: {false, itself, false},
	},
	release: {
		killed: {false, another, true}, before: {false, itself, true}, after: {true, itself, true},
		restarted: {false, itself, true}, readOnly: {false, itself, true},
	},
	redrive: {
		killed: {false, caller, false}, before: {false, caller, false}, after: {true, caller, false},
		restarted: {false, caller, false}, readOnly: {false, caller, false},
	},
	prune: {
		killed: {false, caller, false}, before: {false, caller, false}, after: {true, caller, false},
		restarted: {false, caller, false}, readOnly: {false, caller, false},
	},
}

// String is how the document words a cell.
func (c cell) String() string {
	return fmt.Sprintf("%s; %s; %s", map[bool]string{false: "as before", true: "as after"}[c.committed], c.who,
		map[bool]string{false: "once", true: "again"}[c.again])
}

// TestMatrixInDocs holds the document's crash matrix against the one that the tests go by.
func TestMatrixInDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	steps, cells := "| step | before | after |\n|---|---|---|\n", "| step |"
	for _, column := range columns {
		cells += fmt.Sprintf(" `%s` |", column)
	}
	cells += "\n|" + strings.Repeat("---|", len(columns)+1) + "\n"
	for _, p := range phases {
		steps += fmt.Sprintf("| %s | %s | %s |\n", p.step, p.had, p.has)
		cells += fmt.Sprintf("| %s |", p.step)
		for _, column := range columns {
			cells += fmt.Sprintf(" %v |", matrix[p.step][column])
		}
		cells += "\n"
	}
	for _, table := range []string{steps, cells} {
		if !strings.Contains(string(text), "\n\n"+table+"\n") {
			t.Errorf("the document lacks this table:\n%s", table)
		}
	}
}
