package stint

// What a decision says of a key is enough to go on counting elsewhere, for limits of which
// nodes can each count a part: then who was told the sum adds what it took itself.

// Mergeable says whether nodes can decide the limit by themselves and add up later what they
// took: a token_bucket that refills steadily, and a fixed_window at multiples of its length,
// if no denied take changes them. A window that carries its debt (see Spec.CarryDebt) then
// lets pass too much once, and one that does not may each time.
func (l *Limit) Mergeable() bool {
	s := &l.spec
	if s.Overdraw || s.Reserve || s.Step || s.FromFirst || s.Calendar != NoPeriod || l.most == 0 {
		return false
	}
	return s.Algorithm == TokenBucket || s.Algorithm == FixedWindow
}

// StateFromDecision returns the state of which a decision was made, by a store that counts the same limit:
// answered at any time, it decides as that would have. The limit must be Mergeable.
func (l *Limit) StateFromDecision(d *Decision) State {
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

// Freed returns how many whole units fewer count as taken at now in the state after than in
// the one before. The limit must be Mergeable.
func (l *Limit) Freed(before, after *State, now Instant) int64 {
	if l.spec.Algorithm == TokenBucket {
		return (max(before.T, int64(now)) - max(after.T, int64(now))) / l.charge
	}
	return l.used(before, now) - l.used(after, now)
}
