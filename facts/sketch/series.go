package sketch

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"
)

// chunkSteps is the number of steps of a chunk: an hour of minutes, ten hours of ten minutes.
const chunkSteps = 60

// Numbers are the counts of one step.
type Numbers [5]uint64

// Series are counts by time, in steps of one length, the oldest first. A step takes a byte, and one or two for each
// count that is not 0. Counts from 2,048 on are rounded, by at most 0.05 %.
type Series struct {
	Chunks []Chunk
}

// Chunk are up to chunkSteps steps one after the other. It begins at a multiple of its length.
type Chunk struct {
	Start time.Time `json:"start"`
	Steps int       `json:"steps"`
	Data  []byte    `json:"data"`
}

// Append adds a step, and removes chunks that are too old, and all steps that are later than it because the
// clock was set back. The last step is added to, since a restart divides a minute. A step
// without counts is not stored: what is missing reads as 0.
func (s *Series) Append(at time.Time, step, keep time.Duration, n Numbers) {
	length := step * chunkSteps
	s.Chunks = slices.DeleteFunc(s.Chunks, func(c Chunk) bool { return at.Sub(c.Start) >= keep+length || c.Start.After(at) })
	if last := len(s.Chunks) - 1; last >= 0 {
		for c := &s.Chunks[last]; c.Steps > 0 && at.Before(c.Start.Add(time.Duration(c.Steps-1)*step)); {
			c.cutLast()
		}
	}
	if n == (Numbers{}) {
		return
	}
	start := at.Truncate(length)
	if last := len(s.Chunks) - 1; last < 0 || s.Chunks[last].Start.Before(start) {
		if last >= 0 {
			s.Chunks[last].Data = slices.Clone(s.Chunks[last].Data) // without spare room
		}
		s.Chunks = append(s.Chunks, Chunk{Start: start})
	}
	c := &s.Chunks[len(s.Chunks)-1]
	place := int(at.Sub(c.Start) / step)
	if place == c.Steps-1 {
		last := c.cutLast()
		n.add(&last)
	}
	for ; c.Steps < place; c.Steps++ {
		c.Data = append(c.Data, 0)
	}
	c.Data = n.append(c.Data)
	c.Steps++
}

// cutLast removes the last step of a chunk and returns its counts.
func (c *Chunk) cutLast() (last Numbers) {
	data := c.Data
	from := 0
	for range c.Steps {
		from = len(c.Data) - len(data)
		var err error
		if last, data, err = cutNumbers(data); err != nil {
			break // Check has found it
		}
	}
	c.Data, c.Steps = c.Data[:from], c.Steps-1
	return last
}

// Each calls do for each step with counts from a time on.
func (s *Series) Each(from time.Time, step time.Duration, do func(at time.Time, n Numbers)) {
	for i := range s.Chunks {
		data := s.Chunks[i].Data
		for place := range s.Chunks[i].Steps {
			var n Numbers
			var err error
			if n, data, err = cutNumbers(data); err != nil {
				break // Check has found it
			}
			if at := s.Chunks[i].Start.Add(time.Duration(place) * step); !at.Before(from) && n != (Numbers{}) {
				do(at, n)
			}
		}
	}
}

// add adds counts.
func (n *Numbers) add(more *Numbers) {
	for i := range n {
		n[i] += more[i]
	}
}

// append appends counts: a byte whose bits say which of them are not 0, then these.
func (n Numbers) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0)
	for i, count := range n {
		if count > 0 {
			dst[at] |= 1 << i
			dst = appendCount(dst, count)
		}
	}
	return dst
}

// appendCount appends a count below 128 as a byte. A larger one takes two, of which 5 bits are an exponent e and
// 10 a mantissa m: it is m if e is 0, and else (1024 + m) * 2^(e-1), rounded.
func appendCount(dst []byte, n uint64) []byte {
	if n < 128 {
		return append(dst, byte(n))
	}
	e := uint64(0)
	if n >= 1024 {
		shift := max(bits.Len64(n)-11, 0)
		n = min(n, math.MaxUint64-1<<shift) // rounding must not overflow
		if shift > 0 {
			n = (n + 1<<(shift-1)) >> shift
		}
		if n == 2048 {
			n, shift = 1024, shift+1
		}
		if shift > 30 {
			n, shift = 2047, 30
		}
		n, e = n-1024, uint64(shift)+1
	}
	return append(dst, byte(1<<7|e<<2|n>>8), byte(n))
}

// cutCount reads a count, and returns how many bytes it took; 0: there is none.
func cutCount(b []byte) (n uint64, size int) {
	switch {
	case len(b) > 0 && b[0] < 128:
		return uint64(b[0]), 1
	case len(b) < 2:
		return 0, 0
	}
	n = uint64(b[0]&3)<<8 | uint64(b[1])
	if e := b[0] >> 2 & 31; e > 0 {
		n = (1024 + n) << (e - 1)
	}
	return n, 2
}

var errSeries = errors.New("the history is damaged")

// cutNumbers reads what append has written, and returns the rest.
func cutNumbers(b []byte) (n Numbers, rest []byte, err error) {
	if len(b) == 0 || b[0]>>len(n) != 0 {
		return n, b, errSeries
	}
	set := b[0]
	b = b[1:]
	for i := range n {
		if set>>i&1 == 0 {
			continue
		}
		count, size := cutCount(b)
		if size == 0 {
			return n, b, errSeries
		}
		n[i], b = count, b[size:]
	}
	return n, b, nil
}

// Check reports whether chunks that were read from a file are in order.
func (s *Series) Check(step time.Duration) error {
	for i := range s.Chunks {
		c := &s.Chunks[i]
		length := step * chunkSteps
		if c.Steps < 0 || c.Steps > chunkSteps || !c.Start.Equal(c.Start.Truncate(length)) || i > 0 && !s.Chunks[i-1].Start.Before(c.Start) {
			return errSeries
		}
		data := c.Data
		for range c.Steps {
			var err error
			if _, data, err = cutNumbers(data); err != nil {
				return err
			}
		}
		if len(data) > 0 {
			return errSeries
		}
	}
	return nil
}
