package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
)

// differential puts the same random histories to the store and to the Model: every
// decision is the same, for single takes and calls of several, forced, given back,
// apart, under numbers that change, and where the store has it with times that run
// backwards.
func differential(t *testing.T, o Options) {
	histories := 60
	if o.Slow {
		histories /= 10
	}
	r := random(t)
	for i := range histories {
		h := &history{Rand: r, at: noon, undo: map[bucket]stint.Take{}, upright: o.Upright}
		for range 1 + r.IntN(12) {
			h.limits = append(h.limits, randomLimit(r))
		}
		if o.OneTable {
			known := map[stint.Algorithm]bool{}
			h.limits = slices.DeleteFunc(h.limits, func(l *stint.Limit) bool {
				again := known[l.Algorithm()]
				known[l.Algorithm()] = true
				return again
			})
		}
		if o.Scattered && count(h.limits, isLog) > 1 { // see Options.Scattered
			h.limits = slices.DeleteFunc(h.limits, func(l *stint.Limit) bool { return l.Spec().MinInterval > 0 })
		}
		if len(h.limits) == 0 {
			continue
		}
		store, model := start(t, o), tester{t, new(Model)}
		for step := range 100 {
			call := h.next(o.Backwards)
			answer, err := ask(store, call)
			want, wantErr := ask(model, call)
			if o.Scattered {
				forgiveWait(call, answer, want)
			}
			if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(answer, want) {
				t.Fatalf("history %d, step %d at noon%+dµs:\n%s\n got %+v %v\nwant %+v %v",
					i, step, call.At-noon, describe(call), answer, err, want, wantErr)
			}
			h.remember(call, want)
		}
	}
}

func isLog(l *stint.Limit) bool { return l.Algorithm() == stint.SlidingLog }

// count returns how many limits are of a kind.
func count(limits []*stint.Limit, is func(*stint.Limit) bool) (n int) {
	for _, l := range limits {
		if is(l) {
			n++
		}
	}
	return n
}

// forgiveWait lets who leans on others be told to wait also for what denied takes of
// the call leave behind, a debt or an entry in a log, which may carry a state to other
// numbers: a store that has to ask several servers which of them denies knows no other time.
func forgiveWait(call stint.Call, got, want []stint.Decision) {
	leaves := slices.ContainsFunc(call.Takes, func(t stint.Take) bool { return t.Limit.Spec().Overdraw || t.Limit.Spec().CountDenied })
	if !leaves || len(got) != len(want) {
		return
	}
	for i := range got {
		if call.Takes[i].Leans > 0 && !got[i].Allowed {
			got[i].RetryAfter = want[i].RetryAfter
		}
	}
}

// ask puts a copy of the call to a store.
func ask(s tester, call stint.Call) ([]stint.Decision, error) {
	call.Results = nil
	if err := s.Decide(context.Background(), &call); err != nil {
		return nil, err
	}
	return call.Results, nil
}

func describe(call stint.Call) string {
	var text strings.Builder
	for _, take := range call.Takes {
		fmt.Fprintf(&text, "  %s op %d cost %d apart %v undo %+v of %+v\n", take.Key, take.Op, take.Cost, take.Apart, take.Undo, take.Limit.Spec())
	}
	return text.String()
}

// history makes up calls.
type history struct {
	*rand.Rand
	at      stint.Instant
	limits  []*stint.Limit
	undo    map[bucket]stint.Take // the newest take of a bucket that passed, as its refund
	upright bool                  // nobody leans
}

// next returns the next call: mostly one take, at times several, of few keys.
func (h *history) next(backwards bool) stint.Call {
	step := pick(h.Rand, 0, 1, time.Millisecond, 100*time.Millisecond, time.Second, 10*time.Second, 3*time.Minute).Microseconds()
	h.at += stint.Instant(h.Int64N(step + 2))
	call := stint.Call{At: h.at}
	if backwards && h.IntN(8) == 0 {
		call.At -= stint.Instant(h.Int64N(int64(time.Hour / time.Microsecond)))
	}
	for range pick(h.Rand, 1, 1, 1, 2, 3, 6) {
		call.Takes = append(call.Takes, h.take())
		if h.IntN(8) == 0 && !h.upright {
			call.Takes = append(call.Takes, h.leaning()...)
		}
	}
	return call
}

// leaning returns a take and what it leans on. Others of the call may lean on the same.
func (h *history) leaning() []stint.Take {
	takes := []stint.Take{{
		Key: stint.Key(fmt.Sprint("leans", h.IntN(2))), Limit: h.limits[0],
		Cost: pick[uint32](h.Rand, 0, 1, 1, 2, 3), Leans: 1, Apart: h.IntN(4) == 0,
	}}
	on := func(key stint.Key) stint.Take {
		return stint.Take{Key: key, Limit: h.limits[h.IntN(len(h.limits))], Cost: takes[0].Cost, Apart: takes[0].Apart}
	}
	if takes[0].Apart {
		takes[0].Key += " apart"
		return append(takes, on("pool apart"))
	}
	takes = append(takes, on(stint.Key(fmt.Sprint("key", h.IntN(3)))))
	if h.IntN(2) == 0 {
		takes[0].Key, takes[0].Leans = "leans on two", 2
		takes = append(takes, on("cap"))
	}
	return takes
}

func (h *history) take() stint.Take {
	take := stint.Take{
		Key:   stint.Key(fmt.Sprint("key", h.IntN(3))),
		Limit: h.limits[h.IntN(len(h.limits))],
		Cost:  pick[uint32](h.Rand, 0, 1, 1, 1, 2, 3, uint32(h.IntN(12)), stint.MaxCost),
	}
	switch h.IntN(16) {
	case 0:
		take.Op = stint.Force
		take.Cost = uint32(h.IntN(20))
	case 1:
		take.Op = stint.Refund
	case 2:
		take.Op = stint.Reset
	case 3, 4:
		if undo, ok := h.undo[bucket{take.Key, take.Limit.Algorithm()}]; ok {
			take = undo
			take.Op = pick(h.Rand, stint.Refund, stint.Refund, stint.Settle)
		}
	case 5, 6:
		// A key of its own, as the order of what is apart and what is not is open.
		take.Key, take.Apart = "apart", true
	}
	return take
}

// remember notes what can be given back later.
func (h *history) remember(call stint.Call, answer []stint.Decision) {
	if d, _ := stint.Combine(answer); !d.Allowed {
		return
	}
	for i, take := range call.Takes {
		if take.Op == stint.Ask && !take.Apart && take.Cost > 0 && i < len(answer) && !answer[i].Over {
			d := answer[i]
			take.Op, take.Undo, take.Leans = stint.Refund, &d, 0
			h.undo[bucket{take.Key, take.Limit.Algorithm()}] = take
		}
	}
}

// randomLimit returns a limit with small numbers of any algorithm.
func randomLimit(r *rand.Rand) *stint.Limit {
	spec := stint.Spec{
		RoundRate: true,
		Algorithm: pick(r, stint.FixedWindow, stint.TokenBucket, stint.LeakyBucket, stint.SlidingLog, stint.SlidingWindow),
		Requests:  pick[uint32](r, 0, 1, 2, 3, 5, 10, 60),
		Per:       pick(r, 10*time.Millisecond, time.Second, 7*time.Second, time.Minute, time.Hour),
	}
	if r.IntN(20) == 0 {
		spec = stint.Spec{Algorithm: stint.Unlimited}
	}
	switch spec.Algorithm {
	case stint.TokenBucket:
		spec.Burst, spec.Step, spec.Overdraw = pick[uint32](r, 0, 1, 5, 20), r.IntN(3) == 0, r.IntN(6) == 0
		spec.Hold = r.IntN(3) == 0
	case stint.LeakyBucket:
		spec.Burst, spec.MaxWait = pick[uint32](r, 0, 1, 5), pick(r, 0, 0, time.Second)
	case stint.FixedWindow:
		spec.FromFirst, spec.Overdraw = r.IntN(3) == 0, r.IntN(6) == 0
		switch {
		case spec.FromFirst:
		case r.IntN(6) == 0:
			spec.Per, spec.Calendar = 0, stint.Day
		case r.IntN(3) == 0:
			spec.CarryDebt = true
		}
	case stint.SlidingLog:
		spec.MinInterval, spec.CountDenied, spec.Overdraw = pick(r, 0, 0, spec.Per/3).Truncate(time.Microsecond), r.IntN(4) == 0, r.IntN(6) == 0
	case stint.SlidingWindow:
		spec.Blocks, spec.Overdraw, spec.StartFull = pick(r, 1, 2, 5, 10), r.IntN(6) == 0, r.IntN(3) == 0
	}
	return stint.MustLimit(spec)
}
