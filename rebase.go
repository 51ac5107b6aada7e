package stint

// usedAt is [StoreLimit.Used].
func (l *Limit) usedAt(st *State, now Instant) int64 {
	if l.spec.Algorithm == Unlimited || l.most == 0 {
		return 0
	}
	return l.used(st, now)
}

// rebase is [StoreLimit.Rebase].
func (l *Limit) rebase(st *State, from, to Instant) {
	st.lending = nil
	if l.most > 0 {
		l.shift(st, from, to)
	}
	if st.Written != 0 {
		st.Written = max(1, st.Written+to-from)
	}
}

// shift is Move, except for loans and the time of writing.
func (l *Limit) shift(st *State, from, to Instant) {
	ahead := int64(to - from)
	switch l.spec.Algorithm {
	case TokenBucket, LeakyBucket:
		used := max(0, st.T-l.clock(from))
		st.T = 0
		if used > 0 {
			st.T = l.clock(to) + used
		}
		st.Log.move(ahead)
	case FixedWindow:
		l.moveWindow(st, from, to)
	case SlidingLog:
		st.T = max(0, st.T+ahead)
		st.Log.move(ahead)
	case Penalty:
		st.T = max(0, st.T+ahead)
	case SlidingWindow:
		blocks := int64(to)/l.block - int64(from)/l.block
		st.T = max(0, st.T+blocks*l.block)
		st.Log.move(blocks)
	}
}

func (l *Limit) moveWindow(st *State, from, to Instant) {
	used := l.windowUsed(st, int64(from))
	switch {
	case used == 0:
		st.T, st.N = 0, 0
	case l.spec.FromFirst || l.floats(st.T):
		st.T = l.float(st.T + int64(to-from))
	default: // for a debt, its remaining part at now
		st.T, _ = l.window(int64(to))
		st.N = used
	}
}

// move changes the times of all entries by as much.
func (g *Log) move(by int64) {
	if g.empty() {
		return
	}
	by = max(by, -g.head.at)
	g.head.at += by
	g.tail.at += by
	g.before += by
}
