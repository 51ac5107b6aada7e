package accesslog

import (
	"cmp"
	"slices"

	"stint"
)

// Queue sorts lines by time, then by arrival, within a window.
//
// If newest is the latest time of all lines so far, the window is [newest-window, newest]. A line
// before the window is late and is moved to its edge. Lines before the edge can be decided, because
// no later line is sorted before them.
//
// The window is divided into slices, which are stored in a ring. A slice is sorted and decided as a
// whole after the edge has passed it. So each line costs one append, and lines are sorted only
// within a slice and only if they arrived out of order.
type Queue struct {
	decide func(at stint.Instant, ref uint32) error
	window int64 // length of the window in microseconds
	width  int64 // length of a slice in microseconds
	ring   [][]waiting
	first  int64 // number of the oldest slice that may have lines
	newest int64 // latest time of all lines; -1 before the first line
	late   int64
}

// waiting is a line that is not decided yet.
type waiting struct {
	at  stint.Instant
	ref uint32
	seq uint32 // order of arrival in its slice
}

// slicesPerWindow is the number of slices in a window. A slice of the default window is about a
// second long.
const slicesPerWindow = 128

// NewQueue returns a queue with a window in microseconds. It calls decide for each line in order,
// with the ref that was given to Put. Put and Flush return an error of decide.
func NewQueue(window int64, decide func(stint.Instant, uint32) error) *Queue {
	width := max(1, window/slicesPerWindow)
	return &Queue{
		decide: decide, window: window, width: width, newest: -1,
		ring: make([][]waiting, window/width+2),
	}
}

// Put adds a line, and decides all lines that no later line can precede.
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

// slice returns the number of the slice for time t.
func (q *Queue) slice(t int64) int64 { return max(0, t) / q.width }

// passOn decides the lines of all slices before end, which is at most one round of the ring.
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

// Late returns the number of lines that were older than the window.
func (q *Queue) Late() int64 { return q.late }

// Flush decides all remaining lines.
func (q *Queue) Flush() error { return q.passOn(q.first + int64(len(q.ring))) }

// earlier orders by time, then by arrival.
func earlier(a, b waiting) int {
	if c := cmp.Compare(a.at, b.at); c != 0 {
		return c
	}
	return cmp.Compare(a.seq, b.seq)
}
