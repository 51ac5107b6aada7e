package stint

import "math/bits"

// The sliding algorithms keep a Log. Time that runs backwards is held at the time
// of the newest entry, and at the time up to which the log was pruned, so nothing
// that was forgotten is given out again.

// steady returns the time a sliding algorithm computes with at now.
func (l *Limit) steady(st *State, now Instant) int64 {
	t := max(int64(now), st.T)
	if st.Log.empty() {
		return t
	}
	if l.spec.Algorithm == SlidingWindow {
		return max(t, st.Log.tail.at*l.block)
	}
	return max(t, st.Log.tail.at)
}

// tidy drops the entries that no longer count at now, so that what a key keeps
// never grows with its age.
func (l *Limit) tidy(st *State, now Instant) {
	if st.Log.empty() {
		return
	}
	t := l.steady(st, now)
	old := t - l.per
	if l.spec.Algorithm == SlidingWindow {
		old = t/l.block - l.kept()
	}
	if st.Log.head.at <= old {
		st.T = max(st.T, t)
		st.Log.prune(old)
		if st.Log.empty() {
			st.N = 0
		}
	}
}

// log returns the state's log, a new one for an untouched key.
func (st *State) log() *Log {
	if st.Log == nil {
		st.Log = new(Log)
	}
	return st.Log
}

// sliding_log. An entry exactly per old no longer counts.

func (l *Limit) logUsed(st *State, now Instant) int64 {
	return int64(st.Log.newerThan(l.steady(st, now) - l.per))
}

func (l *Limit) logFits(st *State, now Instant, cost int64) bool {
	if l.logUsed(st, now)+cost > l.most {
		return false
	}
	return st.Log.empty() || l.steady(st, now) >= st.Log.tail.at+l.spec.MinInterval.Microseconds()
}

// logRetry returns how long until cost units, at most l.most, pass: enough of the
// oldest have left, and the least distance from the last entry is kept.
func (l *Limit) logRetry(st *State, now Instant, cost int64) int64 {
	if st.Log.empty() {
		return 0
	}
	ready := st.Log.tail.at + l.spec.MinInterval.Microseconds()
	over := int64(st.Log.total) + cost - l.most
	if l.deferred(st) {
		return max(0, l.deferredRetry(st, over)-int64(now))
	}
	st.Log.each(func(e entry) bool {
		if over <= 0 {
			return false
		}
		over -= int64(e.n)
		ready = max(ready, e.at+l.per)
		return true
	})
	return max(0, ready-int64(now))
}

// deferredRetry returns when a number of excess units has left a state with deferred units.
func (l *Limit) deferredRetry(st *State, over int64) int64 {
	k := l.spans(over)
	ready := st.Log.tail.at + k*l.per
	if int64(st.Log.total) > k*l.most { // of what counts from then on the distance counts too
		ready += l.spec.MinInterval.Microseconds()
	}
	return ready
}

func (l *Limit) logAdd(st *State, now Instant, cost int64) {
	if l.deferred(st) {
		st.Log.push(st.Log.tail.at, uint64(cost))
		return
	}
	l.tidy(st, now)
	log := st.log()
	log.push(l.steady(st, now), uint64(cost))
	log.keepEntries(int(min(l.bound(st), 1<<30)))
}

// sliding_window. With blocks of length b, at offset o into block i, the estimate is
//
//	count[i-blocks] * (b-o)/b + count[i-blocks+1] + ... + count[i]
//
// and a cost passes if floor(estimate) + cost <= requests.

// blocksAt returns the block that contains the steady time, and the time since its start.
func (l *Limit) blocksAt(st *State, now Instant) (block, offset int64) {
	t := l.steady(st, now)
	return t / l.block, t % l.block
}

func (l *Limit) blocksUsed(st *State, now Instant) int64 {
	i, o := l.blocksAt(st, now)
	if l.unseen(st, i) {
		oldest := uint64(l.shareBefore(0))
		return l.most - int64(oldest-share(oldest, uint64(l.block-o), uint64(l.block)))
	}
	if st.Log.empty() {
		return 0
	}
	oldest := i - int64(l.spec.Blocks)
	whole := st.Log.newerThan(oldest)
	return int64(whole + share(st.Log.newerThan(oldest-1)-whole, uint64(l.block-o), uint64(l.block)))
}

// share returns floor(n*part/whole) for part <= whole.
func share(n, part, whole uint64) uint64 {
	hi, lo := bits.Mul64(n, part)
	q, _ := bits.Div64(hi, lo, whole)
	return q
}

// blocksRetry returns how long until cost units, at most l.most, pass. The estimate only falls
// without further takes, so it is enough to check the times at which each entry in turn is the
// weighted one.
func (l *Limit) blocksRetry(st *State, now Instant, cost int64) int64 {
	room := uint64(l.most-cost) + 1 // the estimate must be below this
	i, o := l.blocksAt(st, now)
	whole := st.Log.Units()
	ready := int64(now)
	if l.deferred(st) {
		return l.deferredBlocks(st, room) - int64(now)
	}
	weigh := func(e entry) bool {
		whole -= e.n
		j := e.at + int64(l.spec.Blocks) // the block in which e is weighed
		if j < i || whole >= room {
			return true
		}
		ready = j*l.block + l.offsetBelow(e.n, room-whole)
		if j == i {
			ready = max(ready, i*l.block+o)
		}
		return false
	}
	if l.unseen(st, i) {
		whole = uint64(l.most)
		l.before(i, weigh)
	} else {
		st.Log.each(weigh)
	}
	return max(0, ready-int64(now))
}

// deferredBlocks returns when the estimate is below room, of a whole that is above full use.
func (l *Limit) deferredBlocks(st *State, room uint64) int64 {
	units := st.Log.tail.n
	k := l.spans(int64(units-room) + 1) // windows until what has not left is below room
	left := max(0, int64(units)-k*l.most)
	weighed := min(l.most, int64(units)-(k-1)*l.most)
	return (st.Log.tail.at+k*int64(l.spec.Blocks))*l.block + l.offsetBelow(uint64(weighed), room-uint64(left))
}

// offsetBelow returns the least offset o into a block from which n*(b-o)/b < room.
func (l *Limit) offsetBelow(n, room uint64) int64 {
	if room > n {
		return 0
	}
	hi, lo := bits.Mul64(room, uint64(l.block))
	left, rest := bits.Div64(hi, lo, n)
	if rest == 0 {
		left--
	}
	return l.block - int64(left)
}

func (l *Limit) blocksAdd(st *State, now Instant, cost int64) {
	if l.deferred(st) {
		st.Log.push(st.Log.tail.at, uint64(cost))
		return
	}
	l.tidy(st, now)
	i, _ := l.blocksAt(st, now)
	if l.unseen(st, i) {
		l.writeBefore(st, i)
	}
	st.log().push(i, uint64(cost))
}

// With Spec.StartUsedUp an untouched key is answered as if requests units had been
// taken evenly over the blocks before the present one.

// kept returns after how many blocks an entry is forgotten: those in which it counts,
// and where a forgotten key is a full one again, one in which it is known to be empty.
// Who was told to wait until all has left then finds it so.
func (l *Limit) kept() int64 {
	if l.spec.StartUsedUp {
		return int64(l.spec.Blocks) + 2
	}
	return int64(l.spec.Blocks) + 1
}

// unseen reports whether block i is the first with a take, as far as the state knows. Before the
// first window of 1970 there is none that could be full.
func (l *Limit) unseen(st *State, i int64) bool {
	return l.spec.StartUsedUp && i >= int64(l.spec.Blocks) && (st.Log.empty() || st.Log.tail.at+l.kept() <= i)
}

// shareBefore returns the units of the nth oldest block before a key's first take.
func (l *Limit) shareBefore(n int64) int64 {
	blocks := int64(l.spec.Blocks)
	if n < blocks-l.most%blocks {
		return l.most / blocks
	}
	return l.most/blocks + 1
}

// before calls yield with what counts as taken before block i, which is the first,
// oldest first, until it returns false.
func (l *Limit) before(i int64, yield func(entry) bool) {
	blocks := int64(l.spec.Blocks)
	for n := range blocks {
		if e := (entry{i - blocks + n, uint64(l.shareBefore(n))}); e.n > 0 && !yield(e) {
			return
		}
	}
}

// writeBefore puts what counts as taken before block i into the log.
func (l *Limit) writeBefore(st *State, i int64) {
	log := st.log()
	log.prune(i) // these units have left the window
	l.before(i, func(e entry) bool {
		log.push(e.at, e.n)
		return true
	})
}

// opens reports whether a denied take is to begin a key's window, of a limit with StartUsedUp: no later
// first take of that cost could pass, as each would find the window before it full.
func (l *Limit) opens(st *State, now Instant, cost uint64) bool {
	if cost > uint64(l.most) {
		return false
	}
	i, _ := l.blocksAt(st, now)
	oldest := uint64(l.shareBefore(0))
	return l.unseen(st, i) && cost > oldest-share(oldest, 1, uint64(l.block))
}
