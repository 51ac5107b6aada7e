package sim

import (
	"cmp"
	"slices"
	"time"

	"stint"
)

// result measures a history.
func (w *world) result() Result {
	res := Result{
		Asked: len(w.asks), Local: w.local, Calls: w.calls, Messages: w.messages, Failed: w.failed,
		Over: w.over(), Central: w.central(), Strangers: max(0, w.store.fresh-1),
	}
	for _, p := range w.admitted {
		res.Admitted += int64(p.cost)
	}
	for _, n := range w.nodes {
		res.Held += n.is.Stats().Held
	}
	return res
}

// over returns by how much the worst window of any key was above the limit.
func (w *world) over() int64 {
	keys := map[int][]passage{}
	for _, p := range w.admitted {
		keys[p.key] = append(keys[p.key], p)
	}
	worst := int64(0)
	for _, list := range keys {
		slices.SortStableFunc(list, func(a, b passage) int { return cmp.Compare(a.at, b.at) })
		worst = max(worst, over(w.Limit, list))
	}
	return worst
}

// over looks at all windows of one key. Of a bucket, where in any window of length T
// burst + T * requests/per may pass, the worst that ends now is found by going forward:
//
//	level = max(0, level - time * rate) + cost
func over(limit *stint.Limit, list []passage) (worst int64) {
	spec := limit.Spec()
	per := spec.Per.Nanoseconds()
	if limit.Algorithm() == stint.FixedWindow {
		counts := map[int64]int64{}
		for _, p := range list {
			window := began.Add(p.at).Time().UnixNano() / per
			counts[window] += int64(p.cost)
			worst = max(worst, counts[window]-limit.Most())
		}
		return worst
	}
	rate := float64(spec.Requests) / float64(per)
	level, last := 0.0, time.Duration(0)
	for _, p := range list {
		level = max(0, level-float64(p.at-last)*rate) + float64(p.cost)
		last = p.at
		// What a double cannot tell from the limit is not above it.
		worst = max(worst, int64(level-float64(limit.Most())+1-1e-6))
	}
	return worst
}

// central returns what one bucket would have admitted that everybody asks at once.
func (w *world) central() (n int64) {
	asks := slices.Clone(w.asks)
	slices.SortStableFunc(asks, func(a, b Take) int { return cmp.Compare(a.At, b.At) })
	states := map[int]*stint.State{}
	fits := func(key int, at stint.Instant, cost uint32) bool {
		if states[key] == nil {
			states[key] = new(stint.State)
		}
		return w.Limit.Test(states[key], at, uint64(cost)).Allowed
	}
	for _, a := range asks {
		at := began.Add(a.At)
		both := a.With >= 0 && a.With != a.Key
		if !fits(a.Key, at, a.Cost) || both && !fits(a.With, at, a.Cost) {
			continue
		}
		w.Limit.Take(states[a.Key], at, uint64(a.Cost))
		n += int64(a.Cost)
		if both {
			w.Limit.Take(states[a.With], at, uint64(a.Cost))
			n += int64(a.Cost)
		}
	}
	return n
}
