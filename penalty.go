package stint

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// A penalty keeps a client away that goes on after its limit denied it. It is no limit by itself: it
// stands beside one, under a key of its own, and only counts what that one denied.
//
//	Ask      passes unless a step is running. It charges nothing, whatever its cost is.
//	Force    counts Cost denied tries. Tries during a step count nothing.
//	Settle   counts Cost denied tries of some time before, unless the key is untouched: then it was
//	         reset meanwhile, and they are forgotten with the others.
//	Refund   changes nothing, as nothing was charged.
//	Reset    ends the step and forgets the level.
//
// Let
//
//	level    be how many steps of the ladder count for the key
//	counted  the denied tries since the first of them, in the Per that begins with it
//
// The try that makes counted more than Requests starts the step number level + 1 of the ladder, or
// the last one again, and counted is 0. When Decay has passed without a denied try, level is one
// less, and so on. The time of a step is no time without denied tries: after a step Decay begins
// with its end.
//
// A step begins at its try and lasts as long as the ladder says, and by at most Jitter longer. How
// much longer follows from the microsecond of its begin, so that all stores compute the same end and
// clients that were penalized together do not come back together.
//
// Decisions have these numbers:
//
//	Limit       Requests + 1: how many denied tries start a step
//	Remaining   how many more denied tries start one; 0 while one runs
//	RetryAfter  of a denied Ask: until the end of the step
//	ResetAfter  until nothing counts any more
//	Debt        level
//
// One key with requests=2, per=1m, a ladder of 1m and 10m and decay=1h:
//
//	 0s  denied try   counted 1
//	10s  denied try   counted 2
//	20s  denied try   the third: step 1, until 1m20s; level 1
//	30s  Ask          denied, retry after 50s
//	40s  denied try   counts nothing
//	1m20s Ask         passes
//	2m   3 denied     step 2, until 12m; level 2
//	1h12m             level 1
//	2h12m             level 0: an untouched key
//
// The state is three numbers:
//
//	N        level + levels * counted
//	T        if counted is 0 the end of the last step, else the first counted try
//	Written  the begin of the last step, or the last counted try
//
// Time that runs backwards ends no step early: a try counts at Written if that is later than now. A
// state from the future is moved back, see above.go, so no step lasts longer than its own length.
//
// When its numbers change, the state stands as it is: a running step ends when it was to end, and
// everything else is read by the new numbers.

// levels is larger than any level, see State.N above. maxSteps is the most steps of a ladder.
const (
	levels   = 32
	maxSteps = 16
)

// prepareLadder reads the ladder of a penalty.
func (l *Limit) prepareLadder() error {
	l.most = int64(l.spec.Requests) + 1
	wrong := func(problem, hint string) error {
		return &SpecError{Field: "ladder", Problem: problem, Hint: hint}
	}
	words := strings.Fields(l.spec.Ladder)
	if len(words) == 0 {
		return wrong("a ladder without a step", "write how long each step lasts, such as 1m, 10m, 1h, 24h")
	}
	if len(words) > maxSteps {
		return wrong(fmt.Sprintf("%d steps are more than %d", len(words), maxSteps), "leave out some; the last step is repeated")
	}
	ladder := make([]int64, len(words))
	l.ladder = &ladder
	for i, word := range words {
		step, err := time.ParseDuration(word)
		switch {
		case err != nil:
			return wrong(err.Error(), "write durations as time.Duration does, separated by spaces")
		case step < MinPer || step > MaxPer:
			return wrong(fmt.Sprintf("a step of %v is outside 10ms to 366d", step), "give steps such as 1m or 24h")
		case step%time.Microsecond != 0:
			return wrong(fmt.Sprintf("%v is not in whole microseconds", step), "round it to a microsecond")
		}
		ladder[i] = step.Microseconds()
		if i > 0 && ladder[i] <= ladder[i-1] {
			return wrong(fmt.Sprintf("a step of %v after one of %v", step, span(ladder[i-1])), "each step must be longer than the one before; the last one is repeated")
		}
	}
	return nil
}

// checkPenalty checks the numbers of a penalty, except the ladder.
func (s *Spec) checkPenalty() error {
	switch {
	case s.Requests == 0:
		return &SpecError{Field: "after", Problem: "0 tries would penalize a key that was never denied", Hint: "write 1 or more; the try after that many starts a step"}
	case s.Decay < MinPer || s.Decay > MaxPer:
		return &SpecError{Field: "decay", Problem: fmt.Sprintf("%v is outside 10ms to 366d", s.Decay), Hint: "give a time such as 24h, in which a key without a denied try steps one level down"}
	case s.Decay%time.Microsecond != 0:
		return &SpecError{Field: "decay", Problem: fmt.Sprintf("%v is not in whole microseconds", s.Decay), Hint: "round it to a microsecond"}
	case s.Decay < s.Per:
		return &SpecError{Field: "decay", Problem: fmt.Sprintf("%v is shorter than the %v in which tries count", s.Decay, s.Per), Hint: "a level must outlast the tries that led to it; write at least as long"}
	case s.Jitter > wholeJitter:
		return &SpecError{Field: "jitter", Problem: "more than 100 %", Hint: "write by how much a step may be longer, such as 10%"}
	}
	return nil
}

// wholeJitter is a jitter of 100 %.
const wholeJitter = 1_000_000

// stepLength returns how long the step of a level lasts that begins at a time.
func (l *Limit) stepLength(level, at int64) int64 {
	const prime, factor = 1_048_573, 386_117 // scatter the begins of neighbouring microseconds
	length := (*l.ladder)[level-1]
	most := mulDiv(length, int64(l.spec.Jitter), wholeJitter)
	return length + mulDiv(most, at%prime*factor%prime, prime)
}

// mulDiv returns a*b/c rounded down, for numbers of at most 2^52 and b <= c.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// stepEnd returns the end of the step that runs at now, 0 if none does.
func (st *State) stepEnd(now int64) int64 {
	if st.N > 0 && st.N < levels && now < st.T {
		return st.T
	}
	return 0
}

// penalty returns the level and the tries that count at now.
func (l *Limit) penalty(st *State, now int64) (level, counted int64) {
	if st.N <= 0 {
		return 0, 0
	}
	level, counted = min(st.N%levels, int64(len(*l.ladder))), st.N/levels
	level -= min(level, max(0, now-st.denied())/l.spec.Decay.Microseconds())
	if now >= st.T+l.per {
		counted = 0
	}
	return level, counted
}

// denied returns from when on the key was not denied: the last counted try, or the end of the last
// step.
func (st *State) denied() int64 {
	if st.N < levels {
		return st.T
	}
	return int64(st.Written)
}

// penaltyExpiry returns when neither a level nor a try counts any more.
func (l *Limit) penaltyExpiry(st *State) int64 {
	if st.N <= 0 {
		return 0
	}
	end := st.denied() + min(st.N%levels, int64(len(*l.ladder)))*l.spec.Decay.Microseconds()
	if st.N >= levels {
		end = max(end, st.T+l.per)
	}
	return end
}

// penaltyTest answers an Ask.
func (l *Limit) penaltyTest(st *State, now Instant, cost uint64) Decision {
	if l.early(st, now) != 0 {
		moved := *st
		l.present(&moved, now)
		st = &moved
	}
	level, counted := l.penalty(st, int64(now))
	d := Decision{
		Allowed: true, Limit: l.most, Remaining: max(1, l.most-counted), Debt: level,
		ResetAfter: span(max(0, l.penaltyExpiry(st)-int64(now))), At: now,
	}
	if end := st.stepEnd(int64(now)); end > 0 {
		d.Remaining = 0
		if cost > 0 {
			d.Allowed, d.RetryAfter = false, span(end-int64(now))
		}
	}
	return d
}

// penaltyAdd counts denied tries.
func (l *Limit) penaltyAdd(st *State, now, tries int64) {
	at := max(now, int64(st.Written))
	if st.stepEnd(at) > 0 {
		return
	}
	level, counted := l.penalty(st, at)
	first := st.T
	if counted == 0 {
		first = at
	}
	counted += tries
	if counted >= l.most {
		level, counted = min(level+1, int64(len(*l.ladder))), 0
		first = at + l.stepLength(level, at)
	}
	st.T, st.N, st.Written = first, counted*levels+level, Instant(at)
}
