package stint

// For some limits nodes can each count a part: a decision has enough numbers to continue counting
// on another node. A node that received the sum adds its own takes to it.

// mergeable is [StoreLimit.Mergeable].
func (l *Limit) mergeable() bool {
	s := &l.spec
	if s.Overdraw || s.Reserve || s.Step || s.FromFirst || s.Calendar != NoPeriod || l.most == 0 {
		return false
	}
	return s.Algorithm == TokenBucket || s.Algorithm == FixedWindow
}

// stateFromDecision is [StoreLimit.StateFromDecision].
func (l *Limit) stateFromDecision(d *Decision) State {
	end := int64(d.At.Add(d.ResetAfter))
	if l.spec.Algorithm == TokenBucket {
		st := State{T: end}
		if d.ResetAfter == 0 {
			st.T = 0
		}
		l.mark(&st, d.At)
		return st
	}
	used := l.most - d.Remaining + d.Debt
	if used <= 0 {
		return State{}
	}
	if d.ResetAfter > l.spec.Per { // of other numbers, which are gone later
		_, end = l.window(int64(d.At))
	}
	return State{T: end - l.per, N: used}
}

// freed is [StoreLimit.Freed].
func (l *Limit) freed(before, after *State, now Instant) int64 {
	if l.spec.Algorithm == TokenBucket {
		return (max(before.T, int64(now)) - max(after.T, int64(now))) / l.charge
	}
	return l.used(before, now) - l.used(after, now)
}
