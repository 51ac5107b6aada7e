package accesslog

import (
	"cmp"
	"slices"

	"stint"
)

// Queue puts lines in order of time, then of arrival, within a window.
//
// With newest the latest time of all lines so far, the window is [newest-window,
// newest]. A line before it is late and is moved to its edge. What lies before the
// edge can be passed on, because nothing that comes later is put before it.
//
// The window is cut into slices, kept in a ring. A slice is sorted and passed on as
// a whole once the edge has left it behind: a line costs an append, and a sort of
// its neighbours only where they came out of order.
type Queue struct {
	decide func(at stint.Instant, ref uint32) error
	window int64 // microseconds
	width  int64 // of a slice
	ring   [][]waiting
	first  int64 // number of the oldest slice that may hold lines
	newest int64 // -1 before the first line
	late   int64
}

// waiting is a line that waits for its turn.
type waiting struct {
	at  stint.Instant
	ref uint32
	seq uint32 // its place in the slice as it came
}

// slicesPerWindow makes a slice of the default window about a second long.
const slicesPerWindow = 128

// NewQueue returns a queue with a window in microseconds. It calls decide for each line in order;
// ref is the number that Put was given. An error of decide ends Put and Flush.
func NewQueue(window int64, decide func(stint.Instant, uint32) error) *Queue {
	width := max(1, window/slicesPerWindow)
	return &Queue{
		decide: decide, window: window, width: width, newest: -1,
		ring: make([][]waiting, window/width+2),
	}
}

// Put adds a line, and passes on all lines that no later line can come before.
func (q *Queue) Put(at stint.Instant, ref uint32) error {
	t := int64(at)
	if t > q.newest {
		if q.newest < 0 {
			q.first = q.slice(t - q.window)
		}
		q.newest = t
		if err := q.passOn(q.slice(t - q.window)); err != nil {
			return err
		}
	} else if t < q.newest-q.window {
		t = q.newest - q.window
		q.late++
	}
	n := q.slice(t)
	s := &q.ring[n%int64(len(q.ring))]
	*s = append(*s, waiting{stint.Instant(t), ref, uint32(len(*s))})
	return nil
}

// slice returns the number of the slice that holds t.
func (q *Queue) slice(t int64) int64 { return max(0, t) / q.width }

// passOn decides the lines of all slices before end, at most once around the ring.
func (q *Queue) passOn(end int64) error {
	for n := q.first; n < min(end, q.first+int64(len(q.ring))); n++ {
		s := &q.ring[n%int64(len(q.ring))]
		if !slices.IsSortedFunc(*s, earlier) {
			slices.SortFunc(*s, earlier)
		}
		for _, w := range *s {
			if err := q.decide(w.at, w.ref); err != nil {
				return err
			}
		}
		*s = (*s)[:0]
	}
	q.first = max(q.first, end)
	return nil
}

// Late returns how many lines were older than the window.
func (q *Queue) Late() int64 { return q.late }

// Flush passes on all lines that are left.
func (q *Queue) Flush() error { return q.passOn(q.first + int64(len(q.ring))) }

// earlier orders by time, then by arrival.
func earlier(a, b waiting) int {
	if c := cmp.Compare(a.at, b.at); c != 0 {
		return c
	}
	return cmp.Compare(a.seq, b.seq)
}
