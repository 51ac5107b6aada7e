package stint_test

import (
	"math/big"
	"time"

	"stint"
)

// model decides for one key by the definition of the algorithm: it keeps every take and counts with
// fractions. It has neither states nor formulas for retry, remaining and reset; reference finds
// those by trying. Time must not run backwards.
type model interface {
	// fits reports whether cost > 0 units pass at now; without distance, the least
	// distance between two takes is left out of it.
	fits(now, cost int64, distance bool) bool
	// take charges cost units at now and returns the delay.
	take(now, cost int64) int64
	// untouched reports whether the key is as if never touched at now.
	untouched(now int64) bool
}

// newModel returns the model of a spec. Requests and Burst must be set.
func newModel(spec stint.Spec) model {
	per := spec.Per.Microseconds()
	requests := int64(spec.Requests)
	switch spec.Algorithm {
	case stint.TokenBucket, stint.LeakyBucket:
		capacity := int64(spec.Burst)
		if spec.Algorithm == stint.LeakyBucket {
			capacity++
		}
		if spec.Step {
			return &stepModel{per: per, requests: requests, capacity: capacity, tokens: capacity}
		}
		return &fluidModel{
			charge: ceilDiv(per, requests), level: new(big.Rat), capacity: capacity,
			wait: spec.MaxWait.Microseconds(),
		}
	case stint.FixedWindow:
		return &windowModel{per: per, requests: requests, first: spec.FromFirst}
	case stint.SlidingLog:
		return &logModel{per: per, requests: requests, distance: spec.MinInterval.Microseconds()}
	case stint.SlidingWindow:
		return &blockModel{block: per / int64(spec.Blocks), blocks: int64(spec.Blocks), requests: requests, full: spec.StartUsedUp}
	}
	panic("no model of " + spec.Algorithm.String())
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// fluidModel is a vessel of so many units that drains one unit per charge. A token bucket is its
// complement: the tokens missing from the bucket are in the vessel.
type fluidModel struct {
	charge, capacity, wait int64
	level                  *big.Rat // units at last
	last                   int64
}

func (m *fluidModel) at(now int64) *big.Rat {
	drained := big.NewRat(now-m.last, m.charge)
	left := new(big.Rat).Sub(m.level, drained)
	if left.Sign() < 0 {
		left.SetInt64(0)
	}
	return left
}

func (m *fluidModel) fits(now, cost int64, _ bool) bool {
	level := m.at(now)
	if m.wait > 0 && new(big.Rat).Mul(level, big.NewRat(m.charge, 1)).Cmp(big.NewRat(m.wait, 1)) > 0 {
		return false
	}
	return level.Add(level, big.NewRat(cost, 1)).Cmp(big.NewRat(m.capacity, 1)) <= 0
}

func (m *fluidModel) take(now, cost int64) int64 {
	m.level, m.last = m.at(now), now
	wait := new(big.Rat).Mul(m.level, big.NewRat(m.charge, 1))
	m.level.Add(m.level, big.NewRat(cost, 1))
	return ceilRat(wait)
}

func (m *fluidModel) untouched(now int64) bool { return m.at(now).Sign() == 0 }

func ceilRat(r *big.Rat) int64 {
	return -floorRat(new(big.Rat).Neg(r))
}

func floorRat(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64() // Euclid: rounds down for positive denominators
}

// stepModel goes from step to step and adds the units of each.
type stepModel struct {
	per, requests, capacity int64
	tokens, step            int64
}

func (m *stepModel) at(now int64) int64 {
	tokens := m.tokens
	for step := m.step; step < now/m.per && tokens < m.capacity; step++ {
		tokens = min(tokens+m.requests, m.capacity)
	}
	return tokens
}

func (m *stepModel) fits(now, cost int64, _ bool) bool { return cost <= m.at(now) }

func (m *stepModel) take(now, cost int64) int64 {
	m.tokens, m.step = m.at(now)-cost, now/m.per
	return 0
}

func (m *stepModel) untouched(now int64) bool { return m.at(now) == m.capacity }

// taken is what a model remembers of one take.
type taken struct{ at, cost int64 }

// windowModel remembers all takes and the windows that were opened.
type windowModel struct {
	per, requests int64
	first         bool
	opened        int64 // start of the newest window, with first
	takes         []taken
}

func (m *windowModel) start(now int64) int64 {
	if !m.first {
		return now / m.per * m.per
	}
	if len(m.takes) > 0 && now < m.opened+m.per {
		return m.opened
	}
	return now
}

func (m *windowModel) used(now int64) (n int64) {
	start := m.start(now)
	for _, t := range m.takes {
		if t.at >= start && t.at < start+m.per {
			n += t.cost
		}
	}
	return min(n, 64*m.requests) // a longer debt is not remembered
}

func (m *windowModel) fits(now, cost int64, _ bool) bool { return m.used(now)+cost <= m.requests }

func (m *windowModel) take(now, cost int64) int64 {
	m.opened = m.start(now)
	m.takes = append(m.takes, taken{now, cost})
	return 0
}

func (m *windowModel) untouched(now int64) bool { return m.used(now) == 0 }

// logModel counts the takes of the last per.
type logModel struct {
	per, requests, distance int64
	takes                   []taken
}

func (m *logModel) used(now int64) (n int64) {
	for _, t := range m.takes {
		if now-t.at < m.per {
			n += t.cost
		}
	}
	return n
}

func (m *logModel) fits(now, cost int64, distance bool) bool {
	if last := len(m.takes) - 1; distance && last >= 0 && now-m.takes[last].at < m.distance {
		return false
	}
	return m.used(now)+cost <= m.requests
}

func (m *logModel) take(now, cost int64) int64 {
	m.takes = append(m.takes, taken{now, cost})
	return 0
}

func (m *logModel) untouched(now int64) bool { return m.used(now) == 0 }

// blockModel weighs what was taken blocks ago by the part that is still inside.
type blockModel struct {
	block, blocks, requests int64
	full                    bool // what came before the first take is used up
	takes                   []taken
}

// begun returns the model with what came before now, if now is when a key is seen
// first: one unit after the other goes to the block that has least, the newest first.
func (m *blockModel) begun(now int64) *blockModel {
	if !m.full || !m.untouched(now) {
		return m
	}
	share := make([]int64, m.blocks)
	for n := range m.requests {
		share[n%m.blocks]++
	}
	b := *m
	b.takes = nil
	for n, cost := range share {
		b.takes = append(b.takes, taken{(now/m.block - 1 - int64(n)) * m.block, cost})
	}
	return &b
}

// refused begins the window of a key whose first try asks for more than will leave
// the window in this block.
func (m *blockModel) refused(now, cost int64) {
	b := m.begun(now)
	if last := now/m.block*m.block + m.block - 1; len(b.takes) > 0 && cost > m.requests-floorRat(b.estimate(last)) {
		m.takes = b.takes
	}
}

func (m *blockModel) estimate(now int64) *big.Rat {
	sum := new(big.Rat)
	i, inside := now/m.block, m.block-now%m.block
	for _, t := range m.takes {
		switch age := i - t.at/m.block; {
		case age < m.blocks:
			sum.Add(sum, big.NewRat(t.cost, 1))
		case age == m.blocks:
			sum.Add(sum, new(big.Rat).Mul(big.NewRat(t.cost, 1), big.NewRat(inside, m.block)))
		}
	}
	return sum
}

func (m *blockModel) fits(now, cost int64, _ bool) bool {
	return floorRat(m.begun(now).estimate(now))+cost <= m.requests
}

func (m *blockModel) take(now, cost int64) int64 {
	m.takes = append(m.begun(now).takes, taken{now, cost})
	return 0
}

func (m *blockModel) untouched(now int64) bool {
	if m.full { // the block in which it is known to be empty
		now -= m.block
	}
	return m.estimate(now).Sign() == 0
}

// reference is a model with the decisions of a limit. It searches for the numbers that Decision
// defines: the most that passes, and the shortest wait after which the take passes.
type reference struct {
	spec  stint.Spec
	most  int64
	model model
	debt  int64 // microseconds that it surely takes to work off what was forced
}

func newReference(limit *stint.Limit) *reference {
	return &reference{spec: limit.Spec(), most: limit.Capacity(), model: newModel(limit.Spec())}
}

// horizon is a wait in microseconds after which every key is untouched.
func (r *reference) horizon() int64 {
	per := r.spec.Per.Microseconds()
	steps := ceilDiv(r.most, int64(r.spec.Requests)) + 2
	return max(3*per, steps*(per+int64(r.spec.Requests))) + r.debt
}

func (r *reference) take(now stint.Instant, cost uint64) stint.Decision {
	t, n := int64(now), int64(cost)
	d := stint.Decision{Allowed: true}
	switch {
	case n == 0:
	case n > r.most:
		d.Allowed, d.RetryAfter = false, stint.Never
		if r.spec.Overdraw {
			r.force(now, cost)
		}
	case r.model.fits(t, n, true):
		d.Delay = micros(r.model.take(t, n))
	default:
		d.Allowed = false
		waiting := r.model
		if r.spec.Overdraw || r.spec.CountDenied {
			r.force(now, cost)
		}
		if m, ok := r.model.(*blockModel); ok {
			m.refused(t, n)
			begun := *m.begun(t)
			begun.full = false // while somebody waits for it, the window goes on
			waiting = &begun
		}
		d.RetryAfter = micros(least(r.horizon(), func(wait int64) bool { return waiting.fits(t+wait, n, true) }))
	}
	if r.spec.Algorithm != stint.LeakyBucket {
		d.Delay = 0
	}
	return r.number(d, now)
}

// force charges the cost unconditionally.
func (r *reference) force(now stint.Instant, cost uint64) stint.Decision {
	if cost > 0 {
		r.model.take(int64(now), int64(cost))
		unit := ceilDiv(r.spec.Per.Microseconds(), int64(r.spec.Requests))
		r.debt += (int64(cost) + int64(r.spec.Requests)) * unit * 2
	}
	return r.number(stint.Decision{Allowed: true}, now)
}

// number fills in the numbers of the decision.
func (r *reference) number(d stint.Decision, now stint.Instant) stint.Decision {
	t := int64(now)
	d.Limit, d.At = r.most, now
	d.Remaining = least(r.most, func(n int64) bool { return !r.model.fits(t, n+1, false) })
	if r.spec.Algorithm == stint.FixedWindow && !r.spec.FromFirst {
		per := r.spec.Per.Microseconds()
		d.ResetAfter = micros(per - t%per)
	} else {
		d.ResetAfter = micros(least(r.horizon(), func(wait int64) bool { return r.model.untouched(t + wait) }))
	}
	return d
}

// least returns the least n from 0 to most that is ok; all above it are too.
func least(most int64, ok func(int64) bool) int64 {
	low, high := int64(0), most
	for low < high {
		if middle := low + (high-low)/2; ok(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
