package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// format renders one cell and tells whether it is a number.
func format(cell any) (string, bool) {
	switch v := cell.(type) {
	case nil:
		return "", false
	case float64:
		return Number(v), true
	case int:
		return thousands(strconv.Itoa(v)), true
	case int64:
		return thousands(strconv.FormatInt(v, 10)), true
	default:
		return fmt.Sprint(v), false
	}
}

// Number renders v with at least three significant digits: 0.0123, 1.23, 12.3,
// 123 and 12,345. It is a dash for a figure that does not exist.
func Number(v float64) string {
	size := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case size >= 100 || v == 0:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Numbers renders several in one cell, separated by spaces.
func Numbers(vs []float64) string {
	words := make([]string, len(vs))
	for i, v := range vs {
		words[i] = Number(v)
	}
	return strings.Join(words, " ")
}

func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
