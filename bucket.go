package stint

import (
	"math"
	"math/bits"
	"time"
)

// Both buckets use the generic cell rate algorithm. Let
//
//	clock(now)  be the time in microseconds, or for steps the units refilled so far
//	t           be the state: the clock value at which the bucket is untouched
//	used        = max(0, t - clock(now))
//
// A take of n units passes if used + n*charge <= full, and sets t = clock(now) + used + n*charge.
// A token bucket is full at burst charges. A leaky bucket is full at burst + 1, and a take that
// passes waits for what was used before it.

// clock returns now in the unit of the bucket.
func (l *Limit) clock(now Instant) int64 {
	if l.spec.Step {
		return int64(now) / l.per * int64(l.spec.Requests)
	}
	return int64(now)
}

// takeWord implements [StoreLimit.TakeWord].
func (l *Limit) takeWord(word uint64, now Instant, cost uint64, d *Decision) uint64 {
	if l.charge == 0 {
		return l.takeUnpacked(word, now, cost, d)
	}
	t := int64(word)
	clock := int64(now)
	if !l.smooth {
		clock = l.clock(now)
	}
	used := max(0, t-clock)
	if cost > uint64(l.most) || used+int64(cost)*l.charge > l.full || cost > 0 && used > l.wait {
		if cost == 0 || used > l.full || l.spec.Overdraw {
			return l.takeUnpacked(word, now, cost, d)
		}
		*d = l.bucketReport(t, now)
		d.Allowed, d.RetryAfter = false, Never
		if cost <= uint64(l.most) {
			d.RetryAfter = l.bucketRetry(t, now, int64(cost))
		}
		return word
	}
	after := used
	if cost > 0 {
		after += int64(cost) * l.charge
		t = clock + after
	}
	d.Allowed, d.Degraded, d.Over, d.Own = true, false, false, false
	d.Limit, d.Remaining, d.At = l.most, l.room(after), now
	d.Charged, d.Debt, d.RetryAfter, d.Delay = 0, 0, 0, 0
	if l.smooth {
		d.ResetAfter = time.Duration(after) * time.Microsecond
		return uint64(t)
	}
	d.ResetAfter = span(max(0, l.bucketExpiry(t)-int64(now)))
	if l.spec.Algorithm == LeakyBucket && cost > 0 {
		d.Delay = time.Duration(used) * time.Microsecond
	}
	return uint64(t)
}

// takeUnpacked is takeWord for all other algorithms.
func (l *Limit) takeUnpacked(word uint64, now Instant, cost uint64, d *Decision) uint64 {
	st := l.unpack(word)
	*d = l.take(&st, now, cost)
	return l.pack(&st)
}

// room returns the whole units that still fit.
func (l *Limit) room(used int64) int64 {
	if used >= l.full || used > l.wait {
		return 0
	}
	free := uint64(l.full - used)
	if l.inverse != 0 {
		q, _ := bits.Mul64(free, l.inverse)
		return int64(q)
	}
	return int64(free / uint64(l.charge))
}

// inverse returns 2^64/charge rounded up. The high half of its product with any number up to full
// is an exact quotient. It returns 0 if that is not so. With e < 1 the rounding of 2^64/charge,
// the product is free/charge + free*e/2^64. The fraction of the first term is at most 1 -
// 1/charge, so the sum stays below the next whole number while full*charge < 2^64.
func inverse(charge, full int64) uint64 {
	if hi, _ := bits.Mul64(uint64(charge), uint64(full)); hi != 0 || charge < 2 {
		return 0
	}
	return math.MaxUint64/uint64(charge) + 1
}

func (l *Limit) bucketFits(t int64, now Instant, cost int64) bool {
	used := max(0, t-l.clock(now))
	return used+cost*l.charge <= l.full && used <= l.wait
}

func (l *Limit) bucketReport(t int64, now Instant) Decision {
	used := max(0, t-l.clock(now))
	return Decision{
		Allowed: true, Limit: l.most, At: now, Remaining: l.room(used),
		ResetAfter: span(max(0, l.bucketExpiry(t)-int64(now))),
	}
}

// bucketRetry returns the time until cost units fit. The cost is at most l.most.
func (l *Limit) bucketRetry(t int64, now Instant, cost int64) time.Duration {
	ready := t + cost*l.charge - l.full // clock value at which they fit
	if l.wait != math.MaxInt64 {
		ready = max(ready, t-l.wait)
	}
	return span(max(0, l.unclock(ready)-int64(now)))
}

// unclock returns the earliest microsecond at which the bucket's clock has reached c.
func (l *Limit) unclock(c int64) int64 {
	if !l.spec.Step {
		return c
	}
	requests := int64(l.spec.Requests)
	return (c + requests - 1) / requests * l.per
}

func (l *Limit) bucketExpiry(t int64) int64 {
	if t <= 0 || l.full == 0 {
		return 0
	}
	return l.unclock(t)
}

// bucketAdd charges cost units, even if they do not fit. A debt stops growing at the end of time.
func (l *Limit) bucketAdd(t int64, now Instant, cost int64) int64 {
	clock := l.clock(now)
	sum := clock + max(0, t-clock)
	most := l.clock(endOfTime)
	return min(sum+min(mulSat(cost, l.charge), most), most)
}

// pourBack gives units back to a token bucket: the part of the take with decision undo that has
// not been refilled since. The refilled part may have been taken again already; giving it back
// too would admit more than the rate.
func (l *Limit) pourBack(st *State, now Instant, cost int64, undo *Decision) {
	units := mulSat(cost, l.charge)
	if clock := l.clock(now); undo != nil && clock > l.clock(undo.At) {
		units = min(units, max(0, l.leftBy(undo)-clock))
	}
	st.T = max(0, st.T-units)
}

// leftBy returns the state after a take of a token bucket, from its decision. For a bucket with
// steps and an unknown debt it returns the lowest possible state.
func (l *Limit) leftBy(d *Decision) int64 {
	full := int64(d.At.Add(d.ResetAfter))
	if !l.spec.Step {
		return full
	}
	return max(l.clock(d.At)+d.Limit-d.Remaining, (full/l.per-1)*int64(l.spec.Requests)+1)
}

// leave gives back a place in the queue of a leaky bucket. Only the last place can be removed
// without moving others; an earlier one stays and passes unused.
func (l *Limit) leave(st *State, cost int64, undo *Decision) {
	units := mulSat(cost, l.charge)
	if undo != nil && int64(undo.At.Add(undo.ResetAfter)) != st.T {
		return
	}
	st.T = max(0, st.T-units)
}

// mulSat returns a*b for two numbers that are not negative, at most MaxInt64.
func mulSat(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}
