// Package contest has what benchmarks share that start servers and ask them in rounds.
package contest

import (
	"cmp"
	"net"
	"slices"
)

// Free returns an address on loopback that is not in use now.
func Free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Median returns the median of values, of which there is at least one.
func Median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Ratio is the median of the ratios of each round.
func Ratio(values, others []float64) float64 {
	ratios := make([]float64, len(values))
	for i := range values {
		ratios[i] = values[i] / others[i]
	}
	return Median(ratios)
}
