package sim

import (
	"cmp"
	"slices"
	"time"

	"stint"
)

// compareUse compares the use of each key as the nodes of Gossip know it with the true use.
func (w *world) compareUse() {
	for key, list := range byKey(w.admitted) {
		truth := w.usedUnits(list)
		least, most := truth, truth
		for _, n := range w.others(nil) {
			if n.stoppedUntil <= w.now {
				believed := n.usedUnits(key)
				least, most = min(least, believed), max(most, believed)
			}
		}
		w.used += truth
		w.underestimated += truth - least
		w.overestimated += most - truth
	}
}

// usedUnits returns how many units of a key are used now, including those above its limit.
func (w *world) usedUnits(list []admission) int64 {
	per := w.Limit.Spec().Per.Microseconds()
	if w.Limit.Algorithm() == stint.FixedWindow {
		sum, last := int64(0), int64(0)
		for _, p := range append(slices.Clip(list), admission{at: w.now}) {
			now := int64(began.Add(p.at)) / per
			sum = max(0, sum-w.Limit.Capacity()*(now-last)) + int64(p.cost)
			last = now
		}
		return sum
	}
	level, last := int64(0), time.Duration(0)
	for _, p := range append(slices.Clip(list), admission{at: w.now}) {
		level = max(0, level-(p.at-last).Microseconds()*int64(w.Limit.Spec().Requests)) + int64(p.cost)*per
		last = p.at
	}
	return (level + per - 1) / per
}

// usedUnits returns how many units of a key this process counts as used.
func (n *gossipNode) usedUnits(key int) int64 {
	call := stint.Call{Takes: []stint.Take{n.w.take(key, 0)}}
	n.ask(&call)
	d, spec := &call.Results[0], n.w.Limit.Spec()
	if spec.Algorithm == stint.FixedWindow {
		return d.Limit - d.Remaining + d.Debt
	}
	return (d.ResetAfter.Microseconds()*int64(spec.Requests) + spec.Per.Microseconds() - 1) / spec.Per.Microseconds()
}

// returned returns 1 if, after a fault that kept nodes apart, one node has keys that another has
// removed.
func (w *world) returned(f Fault) int {
	var back, there []int64 // numbers of keys on the nodes of each side
	for _, is := range w.others(nil) {
		switch {
		case f.Kind == Split && is.number%f.Ways == f.Node%f.Ways, f.Kind != Split && is.number == f.Node%len(w.hosts):
			back = append(back, is.keys())
		default:
			there = append(there, is.keys())
		}
	}
	switch {
	case len(back) == 0 || len(there) == 0 || f.Kind == Kill || f.Kind == Set || f.Kind == Drift:
		return 0
	case slices.Max(back) > slices.Min(there), f.Kind == Split && slices.Max(there) > slices.Min(back):
		return 1
	}
	return 0
}

// keys returns how many keys of the history the process has, without probes.
func (n *gossipNode) keys() (known int64) {
	known = n.node.Stats().Keys
	for p := range n.w.probes {
		if n.takeProbe(p, 0) > 0 {
			known--
		}
	}
	return known
}

// idled counts the network parts that had a rest of ten seconds between two admissions, the
// second of them during the partition or shortly after.
func (w *world) idled() (n int) {
	const long = 10 * time.Second
	admitted := slices.Clone(w.admitted)
	slices.SortStableFunc(admitted, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	for _, f := range w.Faults {
		if f.Kind != Split && f.Kind != Cut {
			continue
		}
		last, counted := map[int]time.Duration{}, map[int]bool{} // by network part
		for _, p := range admitted {
			part := p.node % max(1, f.Ways)
			if f.Kind == Cut {
				part = 0
				if p.node != f.Node%len(w.hosts) {
					continue
				}
			}
			before, any := last[part]
			if last[part] = p.at; any && p.at-before >= long && p.at >= f.At && p.at <= f.At+f.For+time.Second && !counted[part] {
				counted[part] = true
				n++
			}
		}
	}
	return n
}
