package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"stint"
)

// bucket identifies a state: a key under another algorithm has another state.
type bucket struct {
	key       stint.Key
	algorithm stint.Algorithm
}

// history makes random calls.
type history struct {
	*rand.Rand
	at          stint.Instant
	limits      []*stint.Limit
	undo        map[bucket][]stint.Take // refunds of takes of a bucket that passed
	noBorrowing bool                    // no take borrows
}

// newHistory returns a history with limits of which many have one algorithm, and some differ in one
// number only.
func newHistory(r *rand.Rand, o Options) *history {
	h := &history{Rand: r, at: noon, undo: map[bucket][]stint.Take{}, noBorrowing: o.NoBorrowing}
	kinds := pick(r, 1, 1, 2, 5) // with one algorithm the numbers of a key change more often than with five
	for n := 1 + r.IntN(12); len(h.limits) < n; {
		switch {
		case len(h.limits) < kinds:
			h.limits = append(h.limits, randomLimit(r))
		case r.IntN(2) == 0:
			h.limits = append(h.limits, changedLimit(r, h.limits[r.IntN(len(h.limits))]))
		default:
			h.limits = append(h.limits, randomLimitOf(r, h.limits[r.IntN(len(h.limits))].Algorithm()))
		}
	}
	return h
}

// next returns the next call: mostly one take, sometimes several, of few keys.
func (h *history) next(backwards bool) stint.Call {
	h.pass(backwards)
	call := stint.Call{At: h.at}
	if backwards && h.IntN(8) == 0 {
		call.At -= stint.Instant(h.Int64N(int64(time.Hour / time.Microsecond)))
	}
	for range pick(h.Rand, 1, 1, 1, 2, 3, 6) {
		call.Takes = append(call.Takes, h.take())
		if h.IntN(8) == 0 && !h.noBorrowing {
			call.Takes = append(call.Takes, h.borrowing()...)
		}
	}
	return call
}

// pass lets time pass until the next call. A clock that may go backwards also leaps, by a day, by
// the period of a limit, or by about as much as clocks differ, and is set back later or not at all.
func (h *history) pass(backwards bool) {
	step := pick(h.Rand, 0, 1, time.Millisecond, 100*time.Millisecond, time.Second, 10*time.Second, 3*time.Minute).Microseconds()
	h.at += stint.Instant(h.Int64N(step + 2))
	if !backwards || h.IntN(10) > 0 {
		return
	}
	per := max(h.limits[h.IntN(len(h.limits))].Spec().Per, time.Millisecond)
	leap := stint.Instant(pick(h.Rand, per, 2*per, 24*time.Hour, 5*time.Second, time.Duration(h.Int64N(int64(3*per)))).Microseconds())
	leap += stint.Instant(h.IntN(3) - 1)
	if h.IntN(2) == 0 {
		leap = -leap
	}
	h.at = max(noon/2, h.at+leap)
}

// borrowing returns a take that borrows, and its sources. Other takes of the call may have the same
// sources.
func (h *history) borrowing() []stint.Take {
	takes := []stint.Take{{
		Key: stint.Key(fmt.Sprint("borrows", h.IntN(2))), Limit: h.limits[0],
		Cost: pick[uint32](h.Rand, 0, 1, 1, 2, 3), Borrows: 1, Independent: h.IntN(4) == 0,
	}}
	on := func(key stint.Key) stint.Take {
		return stint.Take{Key: key, Limit: h.limits[h.IntN(len(h.limits))], Cost: takes[0].Cost, Independent: takes[0].Independent}
	}
	if takes[0].Independent {
		takes[0].Key += " apart"
		return append(takes, on("pool apart"))
	}
	takes = append(takes, on(stint.Key(fmt.Sprint("key", h.IntN(3)))))
	if h.IntN(2) == 0 {
		takes[0].Key, takes[0].Borrows = "borrows from two", 2
		takes = append(takes, on("cap"))
	}
	return takes
}

func (h *history) take() stint.Take {
	take := stint.Take{
		Key:   stint.Key(fmt.Sprint("key", h.IntN(3))),
		Limit: h.limits[h.IntN(len(h.limits))],
	}
	if h.IntN(8) == 0 {
		// A key of its own, as the order of Independent takes and others is not defined.
		take.Key, take.Independent = "apart", true
	}
	take.Cost = h.cost(take.Limit)
	switch h.IntN(16) {
	case 0:
		take.Op = stint.Force
		take.Cost = pick(h.Rand, uint32(h.IntN(20)), h.cost(take.Limit))
	case 1:
		take.Op = stint.Refund
	case 2:
		if h.IntN(2) == 0 {
			take.Op = stint.Reset
		}
	case 3, 4:
		if undo := h.undo[bucket{take.Key, take.Limit.Algorithm()}]; len(undo) > 0 {
			limit := take.Limit
			take = undo[len(undo)-1-h.IntN(min(3, len(undo)))]
			take.Op = pick(h.Rand, stint.Refund, stint.Refund, stint.Settle)
			if h.IntN(4) == 0 { // the numbers change before the refund
				take.Limit = limit
			}
		}
	}
	return take
}

// cost returns a random cost: a few units, the limit's capacity, or about as many.
func (h *history) cost(limit *stint.Limit) uint32 {
	most := min(limit.Capacity(), stint.MaxCost-1)
	return pick(h.Rand, 0, 1, 1, 1, 2, 3, uint32(h.IntN(12)), stint.MaxCost,
		uint32(most), uint32(most+1), uint32(most/2), uint32(h.Int64N(most+2)), uint32(h.Int64N(most+2)))
}

// remember stores takes that can be given back later.
func (h *history) remember(call stint.Call, answer []stint.Decision) {
	if d, _ := stint.Combine(answer); !d.Allowed {
		return
	}
	for i, take := range call.Takes {
		if take.Op == stint.Ask && take.Borrows == 0 && take.Cost > 0 && i < len(answer) && answer[i].Allowed && !answer[i].Over {
			d := answer[i]
			take.Op, take.Undo = stint.Refund, &d
			b := bucket{take.Key, take.Limit.Algorithm()}
			h.undo[b] = append(h.undo[b], take)
		}
	}
}

// randomLimit returns a limit of any algorithm.
func randomLimit(r *rand.Rand) *stint.Limit {
	if r.IntN(20) == 0 {
		return stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	}
	return randomLimitOf(r, pick(r, stint.FixedWindow, stint.TokenBucket, stint.LeakyBucket, stint.SlidingLog, stint.SlidingWindow))
}

// randomLimitOf returns a limit of an algorithm, mostly with small numbers.
func randomLimitOf(r *rand.Rand, algorithm stint.Algorithm) *stint.Limit {
	if algorithm == stint.Unlimited {
		return stint.MustLimit(stint.Spec{Algorithm: algorithm})
	}
	spec := stint.Spec{
		RoundRate: true, Algorithm: algorithm,
		Requests: pick[uint32](r, 0, 1, 2, 3, 5, 10, 60, 1000),
		Per:      pick(r, 10*time.Millisecond, time.Second, 7*time.Second, time.Minute, time.Hour),
	}
	if r.IntN(8) == 0 {
		spec.Requests = pick[uint32](r, 1<<31, stint.MaxCost, 999_999_937, 1_000_000)
	}
	if r.IntN(8) == 0 {
		spec.Per = pick(r, 24*time.Hour, stint.MaxPer, time.Duration(1+r.Int64N(int64(time.Hour/time.Microsecond)))*time.Microsecond+stint.MinPer)
	}
	switch spec.Algorithm {
	case stint.TokenBucket:
		spec.Burst, spec.Step, spec.Overdraw = pick[uint32](r, 0, 1, 5, 20, 1_000_000), r.IntN(3) == 0, r.IntN(6) == 0
		spec.Reserve = r.IntN(3) == 0
	case stint.LeakyBucket:
		spec.Burst, spec.MaxWait = pick[uint32](r, 0, 1, 5, 20, 1_000_000), pick(r, 0, 0, time.Second, 10*time.Second, spec.Per)
	case stint.FixedWindow:
		spec.FromFirst, spec.Overdraw = r.IntN(3) == 0, r.IntN(6) == 0
		switch {
		case spec.FromFirst:
		case r.IntN(6) == 0:
			spec.Per, spec.Calendar = 0, pick(r, stint.Day, stint.Day, stint.Week) // no longer periods: deferred excess counts months by their mean length
		case r.IntN(3) == 0:
			spec.CarryDebt = true
		}
	case stint.SlidingLog:
		spec.MinInterval, spec.CountDenied, spec.Overdraw = pick(r, 0, 0, spec.Per/3).Truncate(time.Microsecond), r.IntN(4) == 0, r.IntN(6) == 0
	case stint.SlidingWindow:
		spec.Blocks, spec.Overdraw, spec.StartUsedUp = pick(r, 1, 2, 5, 10), r.IntN(6) == 0, r.IntN(3) == 0
	}
	return lowered(spec)
}

// lowered returns a limit of the spec, with a rate that its algorithm can count.
func lowered(spec stint.Spec) *stint.Limit {
	for {
		if l, err := stint.NewLimit(spec); err == nil {
			return l
		}
		spec.Requests, spec.Burst = (spec.Requests+9)/10, (spec.Burst+9)/10
		spec.Blocks = 0 // blocks may not divide the period
	}
}

// changedLimit returns a limit that differs from another in one or two numbers.
func changedLimit(r *rand.Rand, l *stint.Limit) *stint.Limit {
	spec, other := l.Spec(), randomLimitOf(r, l.Algorithm()).Spec()
	if spec.Algorithm == stint.TokenBucket && spec.Burst == spec.Requests {
		spec.Burst = 0
	}
	for range 1 + r.IntN(2) {
		switch r.IntN(4) {
		case 0, 1:
			spec.Requests = other.Requests
		case 2:
			spec.Burst, spec.Overdraw, spec.CountDenied = other.Burst, other.Overdraw, other.CountDenied
			spec.StartUsedUp, spec.MaxWait = other.StartUsedUp, other.MaxWait
			spec.Reserve = other.Reserve
		case 3:
			if spec.Calendar == stint.NoPeriod && other.Calendar == stint.NoPeriod {
				spec.Per, spec.MinInterval = other.Per, other.MinInterval
			}
		}
	}
	return lowered(spec)
}
