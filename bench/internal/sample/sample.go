// Package sample describes repeated measurements of one thing.
package sample

import (
	"math"
	"slices"
	"time"
)

// A Set holds measurements in the order in which they were taken.
type Set []float64

// Add appends d in milliseconds.
func (s *Set) Add(d time.Duration) { *s = append(*s, Millis(d)) }

// Millis is d in milliseconds, with its fraction.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Quantile is the smallest measurement that at least the share q of all do not
// exceed, q from 0 to 1. It is one that was taken, never a value in between, and
// NaN when there is none.
func (s Set) Quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q*float64(len(s)))) - 1
	return sorted[min(max(rank, 0), len(s)-1)]
}

// Median is the middle one; of an even number, the lower of the two.
func (s Set) Median() float64 { return s.Quantile(0.5) }

// Max is the largest.
func (s Set) Max() float64 { return s.Quantile(1) }

// Sum adds all up.
func (s Set) Sum() float64 {
	sum := 0.0
	for _, v := range s {
		sum += v
	}
	return sum
}
