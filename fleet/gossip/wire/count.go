package wire

import (
	"math"
	"time"

	"stint"
)

// Countable reports whether takes of a limit change a count. Limits that pass or deny everything
// have none.
func Countable(l *stint.Limit) bool { return l.Algorithm() != stint.Unlimited && l.Capacity() > 0 }

// Count is how many units one node took of a key. Taken and Given only grow while Born is the
// same. A count with a larger Born replaces one with a smaller Born.
type Count struct {
	Born   uint64 // number of the first report that could have contained it
	Number uint64 // number of the last report that contained it
	Taken  uint64 // units
	Given  uint64 // units of Taken that were given back
	Reset  bool   // the count began when somebody reset the key
}

// Newer reports whether c is a later version of old.
func (c *Count) Newer(old *Count) bool {
	return c.Born > old.Born || c.Born == old.Born && (c.Taken > old.Taken || c.Given > old.Given)
}

// Beyond returns how many units c counts as taken, and as given back, that old does not.
func (c *Count) Beyond(old *Count) (taken, given uint64) {
	switch {
	case c.Born > old.Born:
		return c.Taken, c.Given
	case c.Born == old.Born:
		return c.Taken - min(c.Taken, old.Taken), c.Given - min(c.Given, old.Given)
	}
	return 0, 0
}

// Net returns the units that are left of taken after given were given back.
func Net(taken, given uint64) uint64 { return min(taken-min(taken, given), math.MaxInt64) }

// OriginCount is the count of one node, and the number of that node.
type OriginCount struct {
	Origin uint64
	At     stint.Instant // when Origin reported it last; 0 in a message of Origin itself
	Count
}

// Delta is a count of the sender and how it changed since the last report of it.
type Delta struct {
	Limit *stint.Limit
	Key   stint.Key
	Count
	Added uint64 // units of Taken since the last report
	Late  uint64 // units of Taken that were taken in windows that have ended
}

// The flags of counts.
const (
	hasGiven = 1 << iota
	hasLate
	hasReset
)

// Delta writes a delta.
func (w *Writer) Delta(k *Delta) {
	w.Limit(k.Limit)
	w.Bytes(string(k.Key))
	base := k.Taken - k.Added
	flags := byte(0)
	if k.Given > 0 {
		flags |= hasGiven
	}
	if k.Late > base {
		flags |= hasLate
	}
	if k.Reset {
		flags |= hasReset
	}
	w.Data = append(w.Data, flags)
	w.Number(k.Count.Number - k.Born)
	w.Number(k.Taken)
	w.Number(k.Added)
	if flags&hasGiven != 0 {
		w.Number(k.Given)
	}
	if flags&hasLate != 0 {
		w.Number(k.Late)
	}
}

// Delta reads a delta of the report with a number. Its key stays part of the message.
func (r *Reader) Delta(number uint64) (k Delta) {
	k.Limit = r.Limit()
	k.Key = stint.Key(r.Bytes())
	flags := byte(0)
	if b := r.Cut(1); b != nil {
		flags = b[0]
	}
	back := r.Number()
	k.Taken, k.Added = r.Number(), r.Number()
	if flags&hasGiven != 0 {
		k.Given = r.Number()
	}
	if flags&hasLate != 0 {
		k.Late = r.Number()
	}
	if back >= number || k.Added > k.Taken || k.Given > k.Taken || k.Late > k.Taken || k.Key == "" || flags >= hasReset<<1 {
		r.Fail()
	}
	k.Born, k.Count.Number, k.Reset = number-back, number, flags&hasReset != 0
	return k
}

// Entry is all that a node knows of a key.
type Entry struct {
	Limit  *stint.Limit
	Key    stint.Key
	State  stint.State
	Since  stint.Instant // the node knows all that was taken since then
	Busy   Busy          // the last time in which the key was used
	Counts []OriginCount
}

// Busy is a stretch of time in which a key was used.
type Busy struct {
	Since stint.Instant
	Taken int64 // units; of a bucket the microseconds in which these come back
}

// Entry writes an entry, with its times relative to now.
func (w *Writer) Entry(it *Entry, now stint.Instant) {
	w.Limit(it.Limit)
	w.Bytes(string(it.Key))
	state, _ := it.State.AppendBinary(nil)
	w.Bytes(string(state))
	w.ago(it.Since, now)
	w.ago(it.Busy.Since, now)
	w.Number(uint64(max(0, it.Busy.Taken)))
	w.Number(uint64(len(it.Counts)))
	for i := range it.Counts {
		c := &it.Counts[i]
		w.Fixed64(c.Origin)
		flags := byte(0)
		if c.Reset {
			flags = hasReset
		}
		w.Data = append(w.Data, flags)
		w.ago(c.At, now)
		for _, n := range []uint64{c.Born, c.Number, c.Taken, c.Given} {
			w.Number(n)
		}
	}
}

// Entry reads an entry, with its times relative to now.
func (r *Reader) Entry(now stint.Instant) (it Entry) {
	it.Limit = r.Limit()
	it.Key = stint.Key(r.Bytes())
	if r.Err == nil && it.State.UnmarshalBinary(r.Bytes()) != nil || it.Key == "" {
		r.Fail()
	}
	it.Since, it.Busy.Since = r.ago(now), r.ago(now)
	it.Busy.Taken = int64(min(r.Number(), uint64(stint.MaxInstant)))
	n := r.Number()
	if n > uint64(len(r.b))/14 {
		r.Fail()
		return it
	}
	it.Counts = make([]OriginCount, 0, n)
	for range n {
		c := OriginCount{Origin: r.Fixed64()}
		if b := r.Cut(1); b != nil {
			c.Reset = b[0]&hasReset != 0
		}
		c.At = r.ago(now)
		c.Born, c.Number, c.Taken, c.Given = r.Number(), r.Number(), r.Number(), r.Number()
		if c.Born == 0 || c.Given > c.Taken {
			r.Fail()
		}
		it.Counts = append(it.Counts, c)
	}
	return it
}

// Progress is how many reports of a node were received without a gap.
type Progress struct {
	Origin uint64        // number of the node
	Number uint64        // number of the last of these reports
	Ago    time.Duration // since no report was missing
}

// Progress writes a list of progress.
func (w *Writer) Progress(list []Progress) {
	w.Number(uint64(len(list)))
	for _, k := range list {
		w.Fixed64(k.Origin)
		w.Number(k.Number)
		w.Number(uint64(max(0, k.Ago) / time.Millisecond))
	}
}

// Progress reads a list of progress.
func (r *Reader) Progress() (list []Progress) {
	n := r.Number()
	if n > uint64(len(r.b))/10 {
		r.Fail()
		return nil
	}
	list = make([]Progress, 0, n)
	for range n {
		k := Progress{Origin: r.Fixed64(), Number: r.Number()}
		k.Ago = time.Duration(min(r.Number(), 1<<40)) * time.Millisecond
		list = append(list, k)
	}
	return list
}
