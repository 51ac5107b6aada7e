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
		Asked: len(w.asks), Local: w.local, Own: w.own, Calls: w.calls, Messages: w.messages, Failed: w.failed,
		Over: w.over(), Central: w.central(), UnseenLosses: max(0, w.store.newEpochs-1), Seen: w.seen,
		Used: w.used, Underestimated: w.underestimated, Overestimated: w.overestimated,
	}
	if w.Mode.alone() {
		res.Seen.Idled = w.idled()
	}
	for _, p := range w.admitted {
		res.Admitted += int64(p.cost)
	}
	for _, p := range w.hosts {
		if p.node != nil {
			res.Held += p.node.held()
		}
	}
	if res.Stale = w.stale; w.stale > 0 {
		res.Surge = w.surge()
	}
	for _, p := range w.hosts {
		switch is := p.node.(type) {
		case *eventualNode:
			is.addUnreported(&res)
		case *gossipNode:
			is.addUnreported(&res)
		}
	}
	slices.Sort(w.latencies)
	if n := len(w.latencies); n > 0 {
		res.P50, res.P99 = w.latencies[n/2], w.latencies[n*99/100]
	}
	return res
}

// over returns the largest number of units above the limit in any window of any key.
func (w *world) over() int64 {
	worst := int64(0)
	for _, list := range byKey(w.admitted) {
		if w.Limit.Algorithm() == stint.FixedWindow {
			worst = max(worst, overWindows(w.Limit, list))
		} else {
			worst = max(worst, overBucket(w.Limit, list))
		}
	}
	return worst
}

// byKey groups admissions by key, sorted by time.
func byKey(all []admission) map[int][]admission {
	keys := map[int][]admission{}
	for _, p := range all {
		keys[p.key] = append(keys[p.key], p)
	}
	for _, list := range keys {
		slices.SortStableFunc(list, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	}
	return keys
}

// surge returns the largest number of units of a key requested within world.stale.
func (w *world) surge() (most int64) {
	for _, list := range byKey(w.tries) {
		sum, first := int64(0), 0
		for _, p := range list {
			sum += int64(p.cost)
			for list[first].at < p.at-w.stale {
				sum -= int64(list[first].cost)
				first++
			}
			most = max(most, sum)
		}
	}
	return most
}

// overBucket returns the largest excess in any window of one key. In a window of length T, burst
// + T*requests/per may pass. One pass over the list finds the worst window that ends at each
// admission. It uses whole numbers, of units times microseconds of per:
//
//	level = max(0, level - T * requests) + cost * per
func overBucket(limit *stint.Limit, list []admission) (worst int64) {
	spec := limit.Spec()
	per, requests := uint64(spec.Per.Microseconds()), uint64(spec.Requests)
	level, last := wide{}, time.Duration(0)
	most := product(uint64(limit.Capacity()), per)
	for _, p := range list {
		level = level.less(product(uint64((p.at - last).Microseconds()), requests)).plus(product(uint64(p.cost), per))
		last = p.at
		worst = max(worst, int64(level.less(most).over(per)))
	}
	return worst
}

// overWindows returns the largest excess of one key in any run of consecutive windows: in k
// windows k limits may pass, so an excess counts once and not in each window. One pass over the
// list finds the worst run that ends at each admission.
func overWindows(limit *stint.Limit, list []admission) (worst int64) {
	per := limit.Spec().Per.Microseconds()
	sum, last := int64(0), int64(0)
	for _, p := range list {
		if now := int64(began.Add(p.at)) / per; now != last {
			sum = max(0, sum-limit.Capacity()*(now-last-1)) // windows in which nothing passed
			last = now
			sum -= limit.Capacity()
		}
		sum += int64(p.cost)
		worst = max(worst, sum)
	}
	return worst
}

// central returns what one bucket would have admitted if all takes asked it at once.
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
