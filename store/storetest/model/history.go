package model

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"stint"
)

// earliest is a time before which no clock of a history is.
const earliest = stint.Instant(886_183_203_561_728) // in 1998

// History makes random calls.
type History struct {
	*rand.Rand
	At          stint.Instant // of the next call, about
	Limits      []*stint.Limit
	undo        map[bucket][]stint.Take // refunds of takes of a bucket that passed
	noBorrowing bool                    // no take borrows
}

// NewHistory returns a history from a time on with limits of which many have one algorithm, and some
// differ in one number only. With noBorrowing no take borrows.
func NewHistory(r *rand.Rand, at stint.Instant, noBorrowing bool) *History {
	h := &History{Rand: r, At: at, undo: map[bucket][]stint.Take{}, noBorrowing: noBorrowing}
	kinds := pick(r, 1, 1, 2, 5) // with one algorithm the numbers of a key change more often than with five
	for n := 1 + r.IntN(12); len(h.Limits) < n; {
		switch {
		case len(h.Limits) < kinds:
			h.Limits = append(h.Limits, RandomLimit(r))
		case r.IntN(2) == 0:
			h.Limits = append(h.Limits, ChangedLimit(r, h.Limits[r.IntN(len(h.Limits))]))
		default:
			h.Limits = append(h.Limits, RandomLimitOf(r, h.Limits[r.IntN(len(h.Limits))].Algorithm()))
		}
	}
	h.noBorrowing = h.noBorrowing || slices.ContainsFunc(h.Limits, IsPenalty)
	return h
}

// IsPenalty reports whether a limit is a penalty, which nobody borrows from and which has no units.
func IsPenalty(l *stint.Limit) bool { return l.Algorithm() == stint.Penalty }

// Next returns the next call: mostly one take, sometimes several, of few keys.
func (h *History) Next(backwards bool) stint.Call {
	h.pass(backwards)
	call := stint.Call{At: h.At}
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
func (h *History) candidate(of *stint.Take, n int) stint.Take {
	t := stint.Take{Key: "tried", Limit: h.Limits[h.IntN(len(h.Limits))], Cost: of.Cost, Op: of.Op, Independent: true}
	t.Handling = &stint.Handling{Candidate: true, InsteadOf: uint32(n) + 1}
	if t.Op != stint.Ask && (t.Op != stint.AskAtMost || t.Limit.ForStores().Overdraws() || IsPenalty(t.Limit)) {
		t.Op = stint.Ask
	}
	return t
}

// pass lets time pass until the next call. A clock that may go backwards also leaps, by a day, by
// the period of a limit, or by about as much as clocks differ, and is set back later or not at all.
func (h *History) pass(backwards bool) {
	step := pick(h.Rand, 0, 1, time.Millisecond, 100*time.Millisecond, time.Second, 10*time.Second, 3*time.Minute).Microseconds()
	h.At += stint.Instant(h.Int64N(step + 2))
	if !backwards || h.IntN(10) > 0 {
		return
	}
	per := max(h.Limits[h.IntN(len(h.Limits))].Spec().Per, time.Millisecond)
	leap := stint.Instant(pick(h.Rand, per, 2*per, 24*time.Hour, 5*time.Second, time.Duration(h.Int64N(int64(3*per)))).Microseconds())
	leap += stint.Instant(h.IntN(3) - 1)
	if h.IntN(2) == 0 {
		leap = -leap
	}
	h.At = max(earliest, h.At+leap)
}

// borrowing returns a take that borrows, and its sources. Other takes of the call may have the same
// sources.
func (h *History) borrowing() []stint.Take {
	takes := []stint.Take{{
		Key: stint.Key(fmt.Sprint("borrows", h.IntN(2))), Limit: h.Limits[0],
		Cost: pick[uint32](h.Rand, 0, 1, 1, 2, 3), Borrows: 1, Independent: h.IntN(4) == 0,
	}}
	on := func(key stint.Key) stint.Take {
		return stint.Take{Key: key, Limit: h.Limits[h.IntN(len(h.Limits))], Cost: takes[0].Cost, Independent: takes[0].Independent}
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

func (h *History) take() stint.Take {
	take := stint.Take{
		Key:   stint.Key(fmt.Sprint("key", h.IntN(3))),
		Limit: h.Limits[h.IntN(len(h.Limits))],
	}
	if h.IntN(8) == 0 {
		// A key of its own, as the order of Independent takes and others is not defined.
		take.Key, take.Independent = "apart", true
	}
	take.Cost = h.cost(take.Limit)
	kind := h.IntN(16)
	if IsPenalty(take.Limit) && h.IntN(3) == 0 {
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
		if !take.Limit.ForStores().Overdraws() && !IsPenalty(take.Limit) {
			take.Op = stint.AskAtMost
		}
	}
	return take
}

// cost returns a random cost: a few units, the limit's capacity, or about as many.
func (h *History) cost(limit *stint.Limit) uint32 {
	most := min(limit.Capacity(), stint.MaxCost-1)
	return pick(h.Rand, 0, 1, 1, 1, 2, 3, uint32(h.IntN(12)), stint.MaxCost,
		uint32(most), uint32(most+1), uint32(most/2), uint32(h.Int64N(most+2)), uint32(h.Int64N(most+2)))
}

// Remember stores takes that can be given back later.
func (h *History) Remember(call stint.Call, answer []stint.Decision) {
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

// Describe returns the takes of a call, one a line.
func Describe(call stint.Call) string {
	var text strings.Builder
	for _, take := range call.Takes {
		fmt.Fprintf(&text, "  %s op %d cost %d apart %v undo %+v of %+v\n", take.Key, take.Op, take.Cost, take.Independent, take.Undo, short(take.Limit.Spec()))
		if take.Metered() {
			fmt.Fprintf(&text, "    rollover %d, grants %+v\n", take.Handling.Meter.Rollover, take.Handling.Meter.Grants)
		}
	}
	return text.String()
}

// short returns the fields of a spec that are not zero.
func short(spec stint.Spec) string {
	var text strings.Builder
	for v, i := reflect.ValueOf(spec), 0; i < v.NumField(); i++ {
		if f := v.Field(i); !f.IsZero() {
			fmt.Fprintf(&text, "%s=%v ", v.Type().Field(i).Name, f.Interface())
		}
	}
	return text.String()
}

// ForgiveWait accepts a longer retry time of a denied take that borrows, which includes what denied
// takes of the call leave behind, a debt or an entry in a log, which may carry a state to other
// numbers: a store that finds out in another step which servers deny cannot compute the shorter
// one.
func ForgiveWait(call stint.Call, got, want []stint.Decision) {
	leaves := slices.ContainsFunc(call.Takes, func(t stint.Take) bool { return t.Limit.ForStores().Overdraws() || t.Limit.Spec().CountDenied })
	if !leaves || len(got) != len(want) {
		return
	}
	for i := range got {
		if call.Takes[i].Borrows > 0 && !got[i].Allowed {
			got[i].RetryAfter = want[i].RetryAfter
		}
	}
}
