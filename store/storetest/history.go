package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"stint"
	"stint/store/storetest/model"
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
			h.limits = append(h.limits, model.RandomLimit(r))
		case r.IntN(2) == 0:
			h.limits = append(h.limits, model.ChangedLimit(r, h.limits[r.IntN(len(h.limits))]))
		default:
			h.limits = append(h.limits, model.RandomLimitOf(r, h.limits[r.IntN(len(h.limits))].Algorithm()))
		}
	}
	h.noBorrowing = h.noBorrowing || slices.ContainsFunc(h.limits, isPenalty)
	return h
}

// isPenalty reports whether a limit is a penalty, which nobody borrows from and which has no units.
func isPenalty(l *stint.Limit) bool { return l.Algorithm() == stint.Penalty }

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
	if n := h.IntN(len(call.Takes)); h.IntN(4) == 0 && !call.Takes[n].Independent {
		call.Takes = append(call.Takes, h.candidate(&call.Takes[n], n))
	}
	return call
}

// candidate returns a candidate of take number n of a call.
func (h *history) candidate(of *stint.Take, n int) stint.Take {
	t := stint.Take{Key: "tried", Limit: h.limits[h.IntN(len(h.limits))], Cost: of.Cost, Op: of.Op, Independent: true}
	t.Handling = &stint.Handling{Candidate: true, InsteadOf: uint32(n) + 1}
	if t.Op != stint.Ask && (t.Op != stint.AskAtMost || t.Limit.ForStores().Overdraws() || isPenalty(t.Limit)) {
		t.Op = stint.Ask
	}
	return t
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
	kind := h.IntN(16)
	if isPenalty(take.Limit) && h.IntN(3) == 0 {
		kind = 0
	}
	switch kind {
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
	case 5, 6:
		if !take.Limit.ForStores().Overdraws() && !isPenalty(take.Limit) {
			take.Op = stint.AskAtMost
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
		if take.Op.Asks() && take.Borrows == 0 && take.Cost > 0 && i < len(answer) && answer[i].Allowed && !answer[i].Over {
			d := answer[i]
			take.Cost, take.Op, take.Undo = take.Charged(&d), stint.Refund, &d
			b := bucket{take.Key, take.Limit.Algorithm()}
			h.undo[b] = append(h.undo[b], take)
		}
	}
}
