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

// Mark is the count of a node at the end of a period. It contains no take of the period before At.
type Mark struct {
	At stint.Instant // begin of the period
	Count
}

// OriginCount is the count of one node, and the number of that node.
type OriginCount struct {
	Origin uint64
	Count
	Base  Count  // of periods whose times are not known any more
	Marks []Mark // of all later ones
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
	Limit     *stint.Limit
	Key       stint.Key
	State     stint.State
	Settled   stint.State   // at SettledAt, by all counts at their Base
	SettledAt stint.Instant // 0: never
	Counts    []OriginCount
}

// Entry writes an entry, with its times relative to now, and without periods for a node that cannot
// read them.
func (w *Writer) Entry(it *Entry, periods bool, now stint.Instant) {
	w.Limit(it.Limit)
	w.Bytes(string(it.Key))
	w.state(&it.State)
	w.Flag(it.SettledAt != 0)
	w.Data = append(w.Data, 0, 0) // not used any more
	w.Number(uint64(len(it.Counts)))
	for i := range it.Counts {
		c := &it.Counts[i]
		w.Fixed64(c.Origin)
		flags := byte(0)
		if c.Reset {
			flags = hasReset
		}
		w.Data = append(w.Data, flags, 0) // the second is not used any more
		w.count(&c.Count)
		if periods {
			w.count(&c.Base)
			w.Number(uint64(len(c.Marks)))
			for k := range c.Marks {
				w.ago(c.Marks[k].At, now)
				w.count(&c.Marks[k].Count)
			}
		}
	}
	if periods {
		w.state(&it.Settled)
		w.ago(it.SettledAt, now)
	}
}

func (w *Writer) state(st *stint.State) {
	b, _ := st.AppendBinary(nil)
	w.Bytes(string(b))
}

func (w *Writer) count(c *Count) {
	for _, n := range []uint64{c.Born, c.Number, c.Taken, c.Given} {
		w.Number(n)
	}
}

// Entry reads an entry, with its times relative to now. Without periods no time of a take is known.
func (r *Reader) Entry(periods bool, now stint.Instant) (it Entry) {
	it.Limit = r.Limit()
	it.Key = stint.Key(r.Bytes())
	it.State = r.state()
	settled, _, _, n := r.Number() != 0, r.Number(), r.Number(), r.Number()
	if n > uint64(len(r.b))/14 || it.Key == "" {
		r.Fail()
		return it
	}
	it.Counts = make([]OriginCount, n)
	for i := range it.Counts {
		c := &it.Counts[i]
		c.Origin = r.Fixed64()
		flags, _ := r.Cut(1), r.Number()
		c.Count = r.count()
		if c.Base = c.Count; c.Born == 0 {
			r.Fail()
			return it
		}
		c.Reset = flags[0]&hasReset != 0
		if !periods {
			continue
		}
		c.Base = r.count()
		n := r.Number()
		if n > uint64(len(r.b))/5 {
			r.Fail()
			return it
		}
		c.Marks = make([]Mark, n)
		for k := range c.Marks {
			c.Marks[k] = Mark{r.ago(now), r.count()}
		}
	}
	if it.Settled, it.SettledAt = it.State, now; periods {
		it.Settled, it.SettledAt = r.state(), r.ago(now)
		if !settled {
			it.SettledAt = 0
		}
	}
	return it
}

func (r *Reader) state() (st stint.State) {
	if b := r.Bytes(); r.Err == nil && st.UnmarshalBinary(b) != nil {
		r.Fail()
	}
	return st
}

func (r *Reader) count() Count {
	c := Count{Born: r.Number(), Number: r.Number(), Taken: r.Number(), Given: r.Number()}
	if c.Given > c.Taken {
		r.Fail()
	}
	return c
}

// Progress is how many reports of a node were received without a gap.
type Progress struct {
	Origin uint64        // number of the node
	Number uint64        // number of the last of these reports
	Ago    time.Duration // since no report was missing
	Left   bool          // the node stopped after its last report
}

// Progress writes a list of progress, with Left or without it.
func (w *Writer) Progress(list []Progress, left bool) {
	w.Number(uint64(len(list)))
	for _, k := range list {
		w.Fixed64(k.Origin)
		w.Number(k.Number)
		w.Number(uint64(max(0, k.Ago) / time.Millisecond))
		if left {
			w.Flag(k.Left)
		}
	}
}

// Progress reads a list of progress, with Left or without it.
func (r *Reader) Progress(left bool) (list []Progress) {
	n := r.Number()
	if n > uint64(len(r.b))/10 {
		r.Fail()
		return nil
	}
	list = make([]Progress, 0, n)
	for range n {
		k := Progress{Origin: r.Fixed64(), Number: r.Number()}
		k.Ago = time.Duration(min(r.Number(), 1<<40)) * time.Millisecond
		k.Left = left && r.Number() == 1
		list = append(list, k)
	}
	return list
}
