package stint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// entry is a number of units at a time: a microsecond or the number of a block.
type entry struct {
	at int64
	n  uint64
}

// Log is a queue of (time, units) in order of time. Entries of equal time merge.
//
// The oldest and the newest entry stand in the struct; those between are kept as
// bytes, two varints each: the distance from the entry before, and the units. A
// busy key so costs two to five bytes an entry. The zero Log is empty; a nil one
// may be read.
type Log struct {
	head, tail entry  // the same if there is one entry
	total      uint64 // units of all entries
	entries    int
	before     int64  // time of the entry before tail, while there is one
	middle     []byte // the entries between head and tail
	from       int    // where in middle they begin
	shared     bool   // a copy reads middle: what stands there must stay
}

func (g *Log) empty() bool { return g == nil || g.entries == 0 }

// Units returns how many units all entries hold.
func (g *Log) Units() uint64 {
	if g == nil {
		return 0
	}
	return g.total
}

// Newest returns the time of the newest entry, if there is one.
func (g *Log) Newest() (at Instant, ok bool) {
	if g.empty() {
		return 0, false
	}
	return Instant(g.tail.at), true
}

// Size returns the heap bytes of the log.
func (g *Log) Size() int {
	if g == nil {
		return 0
	}
	return 112 + cap(g.middle)
}

// copyTo makes c a copy for which no entry is copied: the two read the same middle,
// and whichever would write over it makes memory of its own first.
func (g *Log) copyTo(c *Log) {
	g.shared = true
	*c = *g
	c.middle = slices.Clip(c.middle) // appending does not change the shared array
}

// spare returns the memory of the middle for other entries, none where a copy reads it.
func (g *Log) spare() []byte {
	if g.shared {
		return nil
	}
	return g.middle[:0]
}

// maxUnits is where the debt of a log stops growing.
const maxUnits = 1<<52 - 1

// push adds n units at a time that is not before the newest entry's.
func (g *Log) push(at int64, n uint64) {
	if n = min(n, maxUnits-g.total); n == 0 {
		return
	}
	g.total += n
	switch {
	case g.entries == 0:
		g.head = entry{at, n}
		g.tail, g.entries = g.head, 1
		return
	case at == g.tail.at:
		g.tail.n += n
		if g.entries == 1 {
			g.head = g.tail
		}
		return
	case g.entries > 1:
		g.shift()
		g.middle = binary.AppendUvarint(g.middle, uint64(g.tail.at-g.before))
		g.middle = binary.AppendUvarint(g.middle, g.tail.n)
	}
	g.before = g.tail.at
	g.tail = entry{at, n}
	g.entries++
}

// shift moves the middle to the front of its memory where that saves growing it.
func (g *Log) shift() {
	if g.from > len(g.middle)/2 || g.from > 0 && len(g.middle)+2*binary.MaxVarintLen64 > cap(g.middle) && g.from > len(g.middle)/8 {
		if g.shared {
			g.middle = append(make([]byte, 0, cap(g.middle)), g.middle[g.from:]...)
		} else {
			g.middle = g.middle[:copy(g.middle, g.middle[g.from:])]
		}
		g.from, g.shared = 0, false
	}
}

// next returns the entry of middle at offset after the one of time at, and the
// offset behind it.
func (g *Log) next(offset int, at int64) (entry, int) {
	d, i := binary.Uvarint(g.middle[offset:])
	n, j := binary.Uvarint(g.middle[offset+i:])
	return entry{at + int64(d), n}, offset + i + j
}

// pop drops the oldest entry.
func (g *Log) pop() {
	g.total -= g.head.n
	g.entries--
	switch g.entries {
	case 0:
		*g = Log{middle: g.spare()}
	case 1:
		g.head = g.tail
		g.middle, g.from, g.shared = g.spare(), 0, false
	default:
		g.head, g.from = g.next(g.from, g.head.at)
	}
}

// prune drops the entries at or before old, and memory that has become far too
// large for the rest.
func (g *Log) prune(old int64) {
	for g.entries > 0 && g.head.at <= old {
		g.pop()
	}
	if left := len(g.middle) - g.from; cap(g.middle) > 256 && left < cap(g.middle)/8 {
		g.middle = append(make([]byte, 0, 2*left), g.middle[g.from:]...)
		g.from, g.shared = 0, false
	}
}

// each calls yield with the entries, oldest first, until it returns false.
func (g *Log) each(yield func(entry) bool) {
	if g.empty() || !yield(g.head) {
		return
	}
	at, offset := g.head.at, g.from
	for range g.entries - 2 {
		var e entry
		e, offset = g.next(offset, at)
		at = e.at
		if !yield(e) {
			return
		}
	}
	if g.entries > 1 {
		yield(g.tail)
	}
}

// newerThan returns the units of the entries after the time old.
func (g *Log) newerThan(old int64) uint64 {
	if g.empty() || g.tail.at <= old {
		return 0
	}
	left := g.total
	g.each(func(e entry) bool {
		if e.at > old {
			return false
		}
		left -= e.n
		return true
	})
	return left
}

// KeepNewest drops the oldest units above most.
func (g *Log) KeepNewest(most uint64) {
	for g.total > most && g.entries > 0 {
		over := g.total - most
		if g.head.n <= over {
			g.pop()
			continue
		}
		g.head.n -= over
		g.total -= over
		if g.entries == 1 {
			g.tail = g.head
		}
	}
}

// keepEntries bounds the number of entries by moving the oldest units to the entry
// behind them, which only makes a limit stricter. Only a debt can exceed it.
func (g *Log) keepEntries(most int) {
	for g.entries > max(1, most) {
		n := g.head.n
		g.pop()
		g.head.n += n
		g.total += n
		if g.entries == 1 {
			g.tail = g.head
		}
	}
}

// remove takes up to n units away from the entry of the time at, or, with newest,
// from the newest entries.
func (g *Log) remove(at int64, n uint64, newest bool) {
	if g.empty() {
		return
	}
	kept := make([]entry, 0, g.entries)
	g.each(func(e entry) bool {
		kept = append(kept, e)
		return true
	})
	for i := len(kept) - 1; i >= 0 && n > 0; i-- {
		if newest || kept[i].at == at {
			less := min(n, kept[i].n)
			kept[i].n -= less
			n -= less
		}
	}
	*g = Log{middle: g.spare()}
	for _, e := range kept {
		if e.n > 0 {
			g.push(e.at, e.n)
		}
	}
}

// stateVersion is the first byte of an encoded state, and writtenVersion that of a state with the
// time of its last write.
const (
	stateVersion   = 1
	writtenVersion = 2
)

var errState = errors.New("damaged state")

// AppendBinary appends an encoding of the state to b. It never fails; the error is
// there for encoding.BinaryAppender.
func (st *State) AppendBinary(b []byte) ([]byte, error) {
	version := byte(stateVersion)
	if st.Written != 0 {
		version = writtenVersion
	}
	b = append(b, version)
	b = binary.AppendVarint(b, st.T)
	b = binary.AppendVarint(b, st.N)
	if st.Written != 0 {
		b = binary.AppendVarint(b, int64(st.Written))
	}
	at, entries := int64(0), 0
	if st.Log != nil {
		entries = st.Log.entries
	}
	b = binary.AppendUvarint(b, uint64(entries))
	st.Log.each(func(e entry) bool {
		b = binary.AppendUvarint(b, uint64(e.at-at))
		b = binary.AppendUvarint(b, e.n)
		at = e.at
		return true
	})
	return b, nil
}

// UnmarshalBinary sets the state to what AppendBinary wrote. Anything else is an
// error and leaves the state alone.
func (st *State) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] != stateVersion && b[0] != writtenVersion {
		return fmt.Errorf("%w: not of version %d or %d", errState, stateVersion, writtenVersion)
	}
	var decoded State
	fields := []*int64{&decoded.T, &decoded.N, (*int64)(&decoded.Written)}
	if b[0] == stateVersion {
		fields = fields[:2]
	}
	b = b[1:]
	for _, field := range fields {
		v, n := binary.Varint(b)
		if n <= 0 || v < 0 || v > int64(endOfTime) {
			return fmt.Errorf("%w: number out of range", errState)
		}
		*field, b = v, b[n:]
	}
	entries, n := binary.Uvarint(b)
	if n <= 0 || entries > uint64(len(b)-n)/2 {
		return fmt.Errorf("%w: impossible number of entries", errState)
	}
	b = b[n:]
	at := int64(0)
	for i := range entries {
		d, n := binary.Uvarint(b)
		u, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 || d > uint64(endOfTime) || u == 0 || u > maxUnits-decoded.Log.Units() || i > 0 && d == 0 {
			return fmt.Errorf("%w: entry %d", errState, i)
		}
		if at += int64(d); at > int64(endOfTime) {
			return fmt.Errorf("%w: entry %d is after the end of time", errState, i)
		}
		decoded.log().push(at, u)
		b = b[n+m:]
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes too many", errState, len(b))
	}
	*st = decoded
	return nil
}
