package report_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/bench/internal/report"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.01234: "0.0123", 0.5: "0.50", 1.234: "1.23", 12.34: "12.3", 123.4: "123",
		12345.6: "12,346", 1234567: "1,234,567", -4321: "-4,321", math.Inf(1): "–",
	} {
		if got := report.Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	if got := report.Number(math.NaN()); got != "–" {
		t.Errorf("Number(NaN) = %q, want a dash", got)
	}
}

func TestTableAlignsNumbersToTheRight(t *testing.T) {
	var out strings.Builder
	report.New(&out).Table([]string{"shape", "ms"}, []any{"deep", 4.5}, []any{"hot", 12000}, []any{"gone", nil})
	want := `
| shape |     ms |
|-------|-------:|
| deep  |   4.50 |
| hot   | 12,000 |
| gone  |        |
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryTellsByHowMuchATargetIsMissed(t *testing.T) {
	var out strings.Builder
	r := report.New(&out)
	r.Target("ratio", 1.2, report.AtMost(1.5, "×"))
	r.Target("p99", 60, report.AtMost(50, " ms"))
	r.Target("against the peer", 1.5, report.AtLeast(2, "×"))
	r.Target("never measured", math.NaN(), report.AtLeast(2, "×"))
	if missed := r.Summary(); missed != 3 {
		t.Errorf("Summary() = %d missed, want 3", missed)
	}
	for _, line := range []string{
		"1 of 4 met.",
		"| ratio            | 1.20×    | at most 1.50×  | met               |",
		"| p99              | 60.0 ms  | at most 50.0 ms | MISSED by 20 %    |",
		"| against the peer | 1.50×    | at least 2.00× | MISSED by 25 %    |",
		"| never measured   | –×       | at least 2.00× | MISSED: no figure |",
	} {
		if !strings.Contains(squeeze(out.String()), squeeze(line)) {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
}

func TestUnjudgedRunGivesNoVerdict(t *testing.T) {
	var out strings.Builder
	r := report.New(&out)
	r.Unjudged = true
	r.Target("p99", 60, report.AtMost(50, " ms"))
	if missed := r.Summary(); missed != 0 {
		t.Errorf("Summary() = %d missed, want 0", missed)
	}
	if strings.Contains(out.String(), "MISSED") {
		t.Errorf("verdict in\n%s", out.String())
	}
}

// squeeze makes the comparison independent of how wide the columns came out.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
