package facts

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

const (
	// minutesKept and tensKept are how long the two histories are kept.
	minutesKept = 24 * time.Hour
	tensKept    = 7 * 24 * time.Hour

	// chunkPoints is the number of points of a chunk: an hour of minutes, ten hours of ten minutes.
	chunkPoints = 60
)

// history is the history of one rule. A point takes a byte, and for each of its counts that is not 0
// one to ten, mostly two or three.
type history struct {
	minutes series
	tens    series
	ten     Counts // of the ten minutes that are not over
	tenAt   time.Time
}

// series are the points of one step, the oldest first.
type series struct {
	chunks []chunk
}

// chunk are up to chunkPoints points one after the other. A chunk begins at a multiple of its length.
type chunk struct {
	Start  time.Time `json:"start"`
	Points int       `json:"points"`
	Data   []byte    `json:"data"`
}

// record adds the counts of a minute.
func (h *history) record(minute time.Time, c Counts) {
	h.minutes.append(minute, Minute, minutesKept, c)
	ten := minute.Truncate(TenMinutes)
	if !ten.Equal(h.tenAt) {
		h.endTen()
		h.tenAt = ten
	}
	h.ten.add(&c)
}

// endTen adds the last ten minutes to the history.
func (h *history) endTen() {
	if !h.tenAt.IsZero() {
		h.tens.append(h.tenAt, TenMinutes, tensKept, h.ten)
	}
	h.ten, h.tenAt = Counts{}, time.Time{}
}

// append adds a point, and removes the chunks that are too old, or later than the point because the clock
// was set back. A point that is not later than the last one of its chunk is dropped. A point without counts is not stored: what is missing
// reads as 0.
func (s *series) append(at time.Time, step, keep time.Duration, c Counts) {
	length := step * chunkPoints
	s.chunks = slices.DeleteFunc(s.chunks, func(c chunk) bool { return at.Sub(c.Start) >= keep+length || c.Start.After(at) })
	if c == (Counts{}) {
		return
	}
	start := at.Truncate(length)
	if n := len(s.chunks); n == 0 || s.chunks[n-1].Start.Before(start) {
		if n > 0 {
			s.chunks[n-1].Data = slices.Clone(s.chunks[n-1].Data) // without spare room
		}
		s.chunks = append(s.chunks, chunk{Start: start})
	}
	last := &s.chunks[len(s.chunks)-1]
	place := int(at.Sub(last.Start) / step)
	if place < last.Points {
		return
	}
	for ; last.Points < place; last.Points++ {
		last.Data = append(last.Data, 0)
	}
	last.Data = c.append(last.Data)
	last.Points++
}

// points returns the points from a time on.
func (s *series) points(from time.Time, step time.Duration) []Point {
	var points []Point
	for i := range s.chunks {
		data := s.chunks[i].Data
		for n := range s.chunks[i].Points {
			var c Counts
			var err error
			if c, data, err = cutCounts(data); err != nil {
				break // load has checked it
			}
			if at := s.chunks[i].Start.Add(time.Duration(n) * step); !at.Before(from) && c != (Counts{}) {
				points = append(points, Point{at.UTC(), c})
			}
		}
	}
	return points
}

// fields are the counts in the order in which they are stored.
func (c *Counts) fields() [5]*uint64 {
	return [5]*uint64{&c.Allowed, &c.Denied, &c.Over, &c.Degraded, &c.Looks}
}

// append appends counts: a byte whose bits say which of them are not 0, then these.
func (c Counts) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0)
	for i, n := range c.fields() {
		if *n > 0 {
			dst[at] |= 1 << i
			dst = binary.AppendUvarint(dst, *n)
		}
	}
	return dst
}

var errHistory = errors.New("the history is damaged")

// cutCounts reads what append has written, and returns the rest.
func cutCounts(b []byte) (c Counts, rest []byte, err error) {
	if len(b) == 0 || b[0]>>len(c.fields()) != 0 {
		return c, b, errHistory
	}
	set := b[0]
	b = b[1:]
	for i, field := range c.fields() {
		if set>>i&1 == 0 {
			continue
		}
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return c, b, errHistory
		}
		*field, b = n, b[size:]
	}
	return c, b, nil
}

// check reports whether chunks that were read from a file are in order.
func (s *series) check(step time.Duration) error {
	for i := range s.chunks {
		c := &s.chunks[i]
		length := step * chunkPoints
		if c.Points < 0 || c.Points > chunkPoints || !c.Start.Equal(c.Start.Truncate(length)) || i > 0 && !s.chunks[i-1].Start.Before(c.Start) {
			return errHistory
		}
		data := c.Data
		for range c.Points {
			var err error
			if _, data, err = cutCounts(data); err != nil {
				return err
			}
		}
		if len(data) > 0 {
			return errHistory
		}
	}
	return nil
}

// recordLocked ends a minute in the history of all rules.
func (f *Facts) recordLocked(minute time.Time) {
	for _, r := range f.board.Load().all() {
		counts := r.countsLocked(f.counted)
		r.history.record(minute, counts.minus(r.recorded))
		r.recorded = counts
	}
}

// History returns the history of a rule on this node, or of several together; step is Minute or
// TenMinutes. Its last point is not over. Points without decisions are left out.
func (f *Facts) History(of Of, step time.Duration) History {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := History{Domain: of.Domain, Rule: of.Rule, Step: step, Points: []Point{}, Marks: []Mark{}}
	keep := minutesKept
	if step != Minute {
		h.Step, keep = TenMinutes, tensKept
	}
	from := f.now().Add(-keep).Truncate(h.Step)
	at := map[int64]Counts{}
	for _, r := range f.board.Load().find(of) {
		points := r.history.minutes.points(from, Minute)
		if h.Step == TenMinutes {
			points = r.history.tens.points(from, TenMinutes)
			if ten := r.history.ten; !r.history.tenAt.IsZero() {
				points = append(points, Point{r.history.tenAt, ten})
			}
		}
		now := r.countsLocked(f.counted).minus(r.recorded)
		points = append(points, Point{f.minute.Truncate(h.Step), now})
		for _, p := range points {
			sum := at[p.At.Unix()]
			sum.add(&p.Counts)
			at[p.At.Unix()] = sum
		}
	}
	for unix, c := range at {
		if c != (Counts{}) {
			h.Points = append(h.Points, Point{time.Unix(unix, 0).UTC(), c})
		}
	}
	slices.SortFunc(h.Points, func(a, b Point) int { return a.At.Compare(b.At) })
	for _, m := range f.marks {
		if !m.At.Before(from) {
			h.Marks = append(h.Marks, m)
		}
	}
	return h
}
