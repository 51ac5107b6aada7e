package stint

import (
	"fmt"
	"time"
)

// State is what a store keeps for one key under one limit. The zero State is an untouched key. The
// meaning of the fields depends on the algorithm:
//
//	token_bucket    T: the instant from which the bucket is full again;
//	with steps, the same on a clock that counts units;
//	with Spec.Reserve, Log: (time, units) that are reserved
//	leaky_bucket    T: the instant at which the last place in the queue is served
//	fixed_window    T: start of the window, N: units taken in it; a T that is none of the
//	limit's own starts is one from which a window floats, see above.go
//	sliding_log     Log: (microsecond, units), T: time up to which it was pruned,
//	N: larger requests that it met since it was empty, 0 for none
//	sliding_window  Log: (block number, units), T: time up to which it was pruned
//	penalty         N: level and counted tries, T: end of a step or first counted try, see penalty.go
//
// It also has the loans to nodes, see StoreLimit.Lend.
//
// A State belongs to one goroutine at a time.
type State struct {
	T   int64
	N   int64
	Log *Log

	// Written is the time of the last write of a penalty, and of a state that counts more units as
	// taken than its limit has, if that time does not follow from its window; 0 for all others.
	Written Instant

	lending *loans
}

// CopyTo makes dst a copy of the state that later changes of st leave as it is, and
// the other way round. It copies no entries of a log, however long, and uses the
// memory that dst has for one, so a store can do it under a lock; both may be used at
// the same time from then on. dst may be zero or hold an earlier copy.
func (st *State) CopyTo(dst *State) {
	dst.T, dst.N, dst.Written = st.T, st.N, st.Written
	if st != dst {
		dst.lending = st.lending.copied()
	}
	switch {
	case st == dst:
	case st.Log != nil:
		st.Log.copyTo(dst.log())
	default:
		dst.Log = nil
	}
}

// Take asks for cost units at now and takes them if they are there. A refusal
// leaves the state alone, except where the limit counts denied tries or overdraws.
// A cost of 0 is a peek.
func (l *Limit) Take(st *State, now Instant, cost uint64) Decision {
	if l.charge != 0 && st.Written == 0 && st.lending == nil && !l.spec.Reserve {
		var d Decision
		if word := l.takeWord(uint64(st.T), now, cost, &d); word <= wholeWord {
			st.T = int64(word)
			return d
		}
	}
	return l.take(st, now, cost)
}

func (l *Limit) take(st *State, now Instant, cost uint64) Decision {
	switch {
	case l.spec.Algorithm == Unlimited:
		return Decision{Allowed: true, Limit: NoLimit, Remaining: NoLimit, At: now}
	case l.most == 0:
		return l.none(now, cost)
	case l.spec.Algorithm == Penalty:
		l.present(st, now)
		return l.penaltyTest(st, now, cost)
	}
	plain := l.timely(st, now)
	if !plain {
		l.correct(st, now, cost)
	}
	if st.Log != nil && st.Written == 0 && l.charge == 0 && cost > 0 { // a peek changes nothing
		l.tidy(st, now)
	}
	var d Decision
	switch {
	case !plain:
		d = l.Test(st, now, cost)
	case l.fits(st, now, cost):
		if cost > 0 {
			l.add(st, now, int64(cost))
		}
		return l.report(st, now)
	default:
		d = l.denied(st, now, cost)
	}
	switch {
	case d.Allowed:
		if cost == 0 {
			return d
		}
		return l.charged(st, now, cost)
	case l.spec.Overdraw:
		l.add(st, now, units(cost))
		return l.deny(st, now, cost)
	case l.spec.CountDenied && d.RetryAfter != Never:
		l.countDenied(st, now, cost)
		return l.deny(st, now, cost)
	case l.spec.StartUsedUp && l.opens(l.seen(st, now), now, cost):
		l.turn(st, now)
		l.blocksAdd(st, now, 0)
		return l.deny(st, now, cost)
	}
	return d
}

// TakeAtMost takes the largest number of units from 1 to most that passes, and returns it as
// Decision.Charged. If less than 1 unit is there it is denied, as a take of 1. A most of 0 is a
// peek. The limit must not overdraw.
func (l *Limit) TakeAtMost(st *State, now Instant, most uint64) Decision {
	d := l.Test(st, now, min(most, 1))
	units := d.AtMost(most)
	d = l.Take(st, now, units)
	d.Charge(units)
	return d
}

// charged takes cost units that fit, and reports.
func (l *Limit) charged(st *State, now Instant, cost uint64) Decision {
	wait := int64(0)
	if l.spec.Algorithm == LeakyBucket {
		wait = max(0, st.T-int64(now))
	}
	l.add(st, now, int64(cost))
	if l.spec.Reserve {
		st.log().push(int64(st.reservedTime(now)), cost)
	}
	d := l.Test(st, now, 0)
	d.Delay = time.Duration(wait) * time.Microsecond
	return d
}

// deny returns the refusal of cost units that do not fit any more.
func (l *Limit) deny(st *State, now Instant, cost uint64) Decision {
	st = l.seen(st, now)
	switch {
	case l.spec.Reserve:
		return l.reservedDeny(st, now, cost)
	case l.smooth && st.lending != nil:
		return l.lentTest(st, now, cost)
	}
	return l.denied(st, now, cost)
}

// Test answers what Take would, without taking: the verdict of one take while
// others of the same call are still to be asked. An allowed answer carries the
// numbers of a peek.
func (l *Limit) Test(st *State, now Instant, cost uint64) Decision {
	switch {
	case l.spec.Algorithm == Unlimited:
		return Decision{Allowed: true, Limit: NoLimit, Remaining: NoLimit, At: now}
	case l.most == 0:
		return l.none(now, cost)
	case l.spec.Algorithm == Penalty:
		return l.penaltyTest(st, now, cost)
	}
	st = l.seen(st, now)
	switch {
	case l.spec.Reserve:
		return l.reservedTest(st, now, cost)
	case l.smooth && st.lending != nil:
		return l.lentTest(st, now, cost)
	case l.fits(st, now, cost):
		return l.report(st, now)
	}
	return l.denied(st, now, cost)
}

// Force debits cost units without asking, into debt if need be. A fixed window
// remembers a debt of up to 63 times its limit, a bucket and a window that carries its
// debt one that is worked off before the year 2112.
func (l *Limit) Force(st *State, now Instant, cost uint64) Decision {
	if l.spec.Algorithm != Unlimited && l.most > 0 && cost > 0 {
		l.add(st, now, units(cost))
	}
	return l.Test(st, now, 0)
}

// Refund gives back cost units: of the take with decision undo or, if undo is nil, of the units
// used now. It never gives back more than was taken: undoing a take of a token bucket gives back
// the part that was not refilled since.
func (l *Limit) Refund(st *State, now Instant, cost uint64, undo *Decision) Decision {
	if l.spec.Algorithm != Unlimited && l.most > 0 && cost > 0 && !l.Untouched(st, now) {
		l.sub(st, now, units(cost), undo)
	}
	return l.Test(st, now, 0)
}

// Untouched reports whether the state at now is that of an untouched key, so that a store may drop
// it.
func (l *Limit) Untouched(st *State, now Instant) bool { return l.expiry(st) <= now }

// expiry is [StoreLimit.Expiry].
func (l *Limit) expiry(st *State) Instant {
	switch l.spec.Algorithm {
	case TokenBucket, LeakyBucket:
		if last := st.lending.last(); last > 0 {
			t, _ := l.unlent(st, last)
			return max(last, Instant(l.bucketExpiry(t)))
		}
		return Instant(l.bucketExpiry(l.reservedExpiry(st)))
	case FixedWindow:
		end := Instant(0)
		if st.N > 0 {
			end = Instant(l.windowExpiry(st))
		}
		if last := st.lending.last(); last >= end.Add(lifeOfLoan) {
			return last // somebody asked when the window was over
		}
		if st.lending != nil {
			return max(end, st.lending.called)
		}
		return end
	case SlidingLog:
		if st.Log.empty() {
			return 0
		}
		return Instant(st.Log.tail.at + l.more(st)*l.per + l.per)
	case SlidingWindow:
		if st.Log.empty() {
			return 0
		}
		return Instant((st.Log.tail.at + l.more(st)*int64(l.spec.Blocks) + l.kept()) * l.block)
	case Penalty:
		return Instant(l.penaltyExpiry(st))
	}
	return 0
}

// none answers for a limit of 0 requests, which denies every cost above 0.
func (l *Limit) none(now Instant, cost uint64) Decision {
	if err := l.Check(); err != nil {
		panic("stint: the zero Limit cannot decide: " + err.Error())
	}
	d := Decision{Allowed: cost == 0, At: now}
	if l.spec.Algorithm == FixedWindow && !l.spec.FromFirst {
		_, end := l.window(int64(now))
		d.ResetAfter = span(end - int64(now))
	}
	if !d.Allowed {
		d.RetryAfter = Never
	}
	return d
}

// units bounds a cost so that no sum of it with a state overflows.
func units(cost uint64) int64 { return int64(min(cost, 1<<47)) }

// fits reports whether cost units could be taken at now of a state that seen returned.
func (l *Limit) fits(st *State, now Instant, cost uint64) bool {
	if cost == 0 {
		return true
	}
	if cost > uint64(l.most) {
		return false
	}
	switch l.spec.Algorithm {
	case TokenBucket, LeakyBucket:
		return l.bucketFits(st.T, now, int64(cost))
	case SlidingLog:
		return l.logFits(st, now, int64(cost))
	}
	return l.counted(st, now)+int64(cost) <= l.most
}

// used returns how many units of the limit count as taken at now, begun ones of a
// bucket as whole.
func (l *Limit) used(st *State, now Instant) int64 { return l.counted(l.seen(st, now), now) }

// counted is used, of a state that seen returned.
func (l *Limit) counted(st *State, now Instant) int64 {
	switch l.spec.Algorithm {
	case TokenBucket, LeakyBucket:
		t, _ := l.unlent(st, now)
		if l.spec.Reserve {
			t, _ = l.reservedAt(st, st.reservedTime(now))
		}
		return (max(0, t-l.clock(now)) + l.charge - 1) / l.charge
	case FixedWindow:
		return l.windowUsed(st, int64(now))
	case SlidingLog:
		return l.logUsed(st, now)
	case SlidingWindow:
		return l.blocksUsed(st, now)
	case Penalty:
		_, counted := l.penalty(st, int64(now))
		return counted
	}
	panic("stint: used of " + l.spec.Algorithm.String())
}

// report returns an allowing decision with the numbers at now of a state that seen returned.
func (l *Limit) report(st *State, now Instant) Decision {
	switch l.spec.Algorithm {
	case TokenBucket, LeakyBucket:
		return l.bucketReport(st.T, now)
	}
	d := Decision{Allowed: true, Limit: l.most, At: now}
	used := l.counted(st, now)
	d.Remaining = max(0, l.most-used)
	if l.spec.Algorithm == FixedWindow {
		d.ResetAfter = l.windowReset(st, int64(now))
		if l.spec.CarryDebt {
			d.Debt = max(0, used-l.most)
		}
	} else {
		d.ResetAfter = span(max(0, int64(l.expiry(st)-now)))
	}
	return d
}

// denied returns a refusing decision with the numbers at now of a state that seen returned.
func (l *Limit) denied(st *State, now Instant, cost uint64) Decision {
	d := l.report(st, now)
	d.Allowed, d.Delay = false, 0
	if cost > uint64(l.most) {
		d.RetryAfter = Never
		return d
	}
	switch l.spec.Algorithm {
	case TokenBucket, LeakyBucket:
		d.RetryAfter = l.bucketRetry(st.T, now, int64(cost))
	case FixedWindow:
		d.RetryAfter = span(l.windowRetry(st, int64(now), int64(cost)))
	case SlidingLog:
		d.RetryAfter = span(l.logRetry(st, now, int64(cost)))
	case SlidingWindow:
		d.RetryAfter = span(l.blocksRetry(st, now, int64(cost)))
	}
	return d
}

// add charges cost units at now without asking.
func (l *Limit) add(st *State, now Instant, cost int64) {
	plain := l.timely(st, now)
	if !plain {
		l.turn(st, now)
	}
	switch l.spec.Algorithm {
	case TokenBucket, LeakyBucket:
		at := now
		if l.spec.Reserve {
			at = st.reservedTime(now)
			l.reservedTidy(st, at)
		}
		l.writeOff(st, at)
		st.T = l.bucketAdd(st.T, at, cost)
	case FixedWindow:
		l.writeOff(st, now)
		l.windowAdd(st, int64(now), cost)
	case SlidingLog:
		l.logAdd(st, now, cost)
	case SlidingWindow:
		l.blocksAdd(st, now, cost)
	case Penalty:
		l.penaltyAdd(st, int64(now), cost)
	default:
		panic(fmt.Sprintf("stint: add to %v", l.spec.Algorithm))
	}
	if !plain {
		l.mark(st, now)
	}
}

// countDenied puts a denied try into a log, which grows no further than what it may hold.
func (l *Limit) countDenied(st *State, now Instant, cost uint64) {
	l.turn(st, now)
	most := max(l.bound(st), st.Log.Units())
	l.add(st, now, int64(cost))
	st.Log.KeepNewest(most)
}

// sub gives cost units back. When a take was counted follows from when its decision
// said that the key would be untouched again, also where the clock ran backwards.
func (l *Limit) sub(st *State, now Instant, cost int64, undo *Decision) {
	l.turn(st, now)
	l.writeOff(st, now)
	reset := int64(0)
	if undo != nil {
		reset = int64(undo.At.Add(undo.ResetAfter))
	}
	switch l.spec.Algorithm {
	case TokenBucket:
		if l.spec.Reserve {
			l.giveBackReserved(st, now, cost, undo)
		} else {
			l.pourBack(st, now, cost, undo)
		}
	case LeakyBucket:
		l.leave(st, cost, undo)
	case FixedWindow:
		l.windowSub(st, int64(now), cost, reset)
	case SlidingLog:
		st.Log.remove(reset-l.per, uint64(cost), undo == nil)
		if st.Log.empty() {
			st.N = 0
		}
	case SlidingWindow:
		st.Log.remove(reset/l.block-l.kept(), uint64(cost), undo == nil)
	}
	l.mark(st, now)
}
