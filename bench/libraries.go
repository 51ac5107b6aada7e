package main

import (
	"context"
	"time"
)

// figure is what is measured of a library.
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

// libraryColumns are the figures for the table. Nobody's allocations differ from 0 and 1 by much, so these are not among them.
var libraryColumns = map[figure]column{
	hot1:        {"ns a decision, one key", true},
	hot2:        {"ns a decision, one key, 2 goroutines", true},
	zipf1:       {"ns a decision, 1 M keys by Zipf's law", true},
	zipf2:       {"ns a decision, 1 M keys, 2 goroutines", true},
	bytesPerKey: {"bytes a key", true},
}

// libraries compares limiters in this process, each one empty at first.
func libraries(ctx context.Context, s settings, r *results) error {
	r.command("libraries, the same as a benchmark of Go", "go -C bench test -run '^$' -bench 'HotKey|MillionKeys|Bytes' .")
	l := newLoad()
	var list []contestant
	for _, c := range contenders {
		list = append(list, contestant{c.name, c.role, func(context.Context) (map[column]float64, error) {
			values := map[column]float64{}
			for f, value := range one(l, c, s.time) {
				if name, shown := libraryColumns[figure(f)]; shown && !(figure(f) == bytesPerKey && c.role == isFloor) {
					values[name] = value
				}
			}
			return values, nil
		}})
	}
	return r.turns(ctx, "Go libraries", s.rounds, list)
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
