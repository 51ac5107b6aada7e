// Command bench measures stint/store/memory and other in-process limiters for Go, and prints one
// table.
//
//	go run . [-rounds 5] [-time 300ms]
//
// Each round measures all limiters in turn, each one empty at first; a figure is the median of the
// rounds. `go test -bench .` measures the same, one limiter after the other.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// figure is a column of the table.
type figure int

const (
	hot1 figure = iota
	hot2
	zipf1
	zipf2
	bytesPerKey
	allocs
	figures
)

var headings = [figures]string{"hot key", "hot key, 2 goroutines", "1 M keys Zipf 1.1", "1 M keys, 2 goroutines", "bytes a key", "allocations"}

func main() {
	rounds := flag.Int("rounds", 5, "how often each is measured; figures are medians")
	about := flag.Duration("time", 300*time.Millisecond, "how long to measure each figure in a round")
	flag.Parse()
	table(os.Stdout, compare(*rounds, *about))
	logBytes, blockBytes := slidingBytes()
	fmt.Printf("\nA key with a million units a minute: sliding_log %.0f bytes, sliding_window of 60 blocks %.0f bytes.\n", logBytes, blockBytes)
	fmt.Printf("%s, %s/%s, GOMAXPROCS %d, %d rounds of %v.\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), *rounds, *about)
}

// compare measures all contenders in turn, round by round, and returns the medians.
func compare(rounds int, about time.Duration) [][figures]float64 {
	l := newLoad()
	seen := make([][figures][]float64, len(contenders))
	for range rounds {
		for i, c := range contenders {
			for f, value := range one(l, c, about) {
				seen[i][f] = append(seen[i][f], value)
			}
		}
	}
	medians := make([][figures]float64, len(contenders))
	for i := range seen {
		for f, values := range seen[i] {
			slices.Sort(values)
			medians[i][f] = values[len(values)/2]
		}
	}
	return medians
}

// one measures a contender that is empty at first.
func one(l *load, c contender, about time.Duration) (values [figures]float64) {
	before := heap()
	t := c.make()
	l.fill(t)
	values[bytesPerKey] = (heap() - before) / keyCount
	hot := func(g, n int) int { return l.hot(t, g, n) }
	spread := func(g, n int) int { return l.spread(t, g, n) }
	values[zipf1] = measure(spread, 1, about)
	values[zipf2] = measure(spread, 2, about)
	values[hot1] = measure(hot, 1, about)
	values[hot2] = measure(hot, 2, about)
	values[allocs] = l.allocations(t)
	if t.close != nil {
		t.close()
	}
	return values
}

// table prints nanoseconds and their ratio to ours: a peer with 2.0 takes twice as long, or uses
// twice the memory.
func table(w io.Writer, medians [][figures]float64) {
	ours := slices.IndexFunc(contenders, func(c contender) bool { return strings.HasPrefix(c.name, "stint/") })
	fmt.Fprintf(w, "| ns a decision (times ours) | %s |\n|---|%s\n", strings.Join(headings[:], " | "), strings.Repeat("---|", int(figures)))
	for i, c := range contenders {
		fmt.Fprintf(w, "| %s |", c.name)
		for f, value := range medians[i] {
			switch figure(f) {
			case allocs:
				fmt.Fprintf(w, " %.1f |", value)
			default:
				fmt.Fprintf(w, " %.0f (%.2f) |", value, value/medians[ours][f])
			}
		}
		fmt.Fprintln(w)
	}
}
