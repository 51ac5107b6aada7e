package loadtest

import "math"

// prefixTree finds the largest sum of a prefix of costs plus a value of its last entry, while entries are set one after the other.
// Entries that are not set cost nothing and end no prefix.
type prefixTree struct {
	size  int       // leaves, a power of two
	costs []float64 // sum of the costs below a node
	most  []float64 // largest sum of a prefix below a node
}

func newPrefixTree(n int) *prefixTree {
	t := &prefixTree{size: 1}
	for t.size < n {
		t.size *= 2
	}
	t.costs, t.most = make([]float64, 2*t.size), make([]float64, 2*t.size)
	for i := range t.most {
		t.most[i] = math.Inf(-1)
	}
	return t
}

// set sets entry i.
func (t *prefixTree) set(i int, cost, value float64) {
	n := t.size + i
	t.costs[n], t.most[n] = cost, cost+value
	for n /= 2; n > 0; n /= 2 {
		t.costs[n] = t.costs[2*n] + t.costs[2*n+1]
		t.most[n] = max(t.most[2*n], t.costs[2*n]+t.most[2*n+1])
	}
}

// best returns the largest sum; at least one entry is set.
func (t *prefixTree) best() float64 { return t.most[1] }

// bestAt returns the last entry of the prefix with the largest sum.
func (t *prefixTree) bestAt() int {
	n := 1
	for n < t.size {
		if t.most[2*n] >= t.costs[2*n]+t.most[2*n+1] {
			n = 2 * n
		} else {
			n = 2*n + 1
		}
	}
	return n - t.size
}

// sum returns the costs of entries 0 to i.
func (t *prefixTree) sum(i int) float64 {
	n := t.size + i
	sum := t.costs[n]
	for ; n > 1; n /= 2 {
		if n%2 == 1 {
			sum += t.costs[n-1]
		}
	}
	return sum
}
