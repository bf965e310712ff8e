package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpreadOf(t *testing.T) {
	tests := []struct {
		name    string
		figures []float64
		want    Spread
	}{
		{"none", nil, Spread{}},
		{"one", []float64{3}, Spread{Median: 3, Min: 3, Max: 3, N: 1}},
		{"odd, unsorted", []float64{9, 1, 4}, Spread{Median: 4, Min: 1, Max: 9, N: 3}},
		{"even: mean of the middle two", []float64{8, 1, 4, 2}, Spread{Median: 3, Min: 1, Max: 8, N: 4}},
		{"an outlier moves only the spread", []float64{1, 1, 1, 1, 100}, Spread{Median: 1, Min: 1, Max: 100, N: 5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, spreadOf(tt.figures)); diff != "" {
				t.Errorf("spreadOf(%v): want - got +\n%s", tt.figures, diff)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	tests := []struct {
		sorted []int
		q      float64
		want   int
	}{
		{nil, 0.5, 0},
		{[]int{7}, 0.99, 7},
		{[]int{1, 2}, 0.5, 1},
		{[]int{1, 2, 3}, 0.5, 2},
		{hundred, 0, 1},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
	}
	for _, tt := range tests {
		if got := quantile(tt.sorted, tt.q); got != tt.want {
			t.Errorf("quantile of %d values at %g = %d, want %d", len(tt.sorted), tt.q, got, tt.want)
		}
	}
}
