package sample_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openlup/pgrail/bench/internal/sample"
)

func TestQuantile(t *testing.T) {
	ten := sample.Set{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	tests := []struct {
		name string
		set  sample.Set
		q    float64
		want float64
	}{
		{"lower of the two in the middle", ten, 0.5, 5},
		{"nine of ten", ten, 0.9, 9},
		{"a share between two ranks needs the higher", ten, 0.91, 10},
		{"none", ten, 0, 1},
		{"all", ten, 1, 10},
		{"one measurement is every quantile", sample.Set{3}, 0.99, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.set.Quantile(tt.q)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if diff := cmp.Diff(sample.Set{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, ten); diff != "" {
		t.Error("Quantile changed the order of the measurements:", diff)
	}
}

func TestEmptySetHasNoMedian(t *testing.T) {
	if got := (sample.Set{}).Median(); !math.IsNaN(got) {
		t.Errorf("Median of nothing = %v, want NaN", got)
	}
}

func TestAddKeepsFractionsOfMilliseconds(t *testing.T) {
	var s sample.Set
	s.Add(1500 * time.Microsecond)
	s.Add(2 * time.Second)
	if diff := cmp.Diff(sample.Set{1.5, 2000}, s); diff != "" {
		t.Error(diff)
	}
	if got, want := s.Sum(), 2001.5; got != want {
		t.Errorf("Sum = %v, want %v", got, want)
	}
}
