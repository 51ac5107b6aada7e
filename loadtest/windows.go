package loadtest

import (
	"cmp"
	"slices"
	"time"

	"stint"
)

// windowBound is how much may pass in windows of a length.
type windowBound struct {
	length time.Duration
	may    int64

	// period is the time between the beginnings of windows. 0: the bound is for any window.
	period time.Duration
}

// mostWindows is how many windows in a row a check looks at together.
const mostWindows = 16

// boundsOf returns the bounds of a limit that is no steady bucket.
func boundsOf(s stint.Spec, capacity int64) (all []windowBound) {
	requests := int64(s.Requests)
	switch {
	case s.Requests == 0:
		return []windowBound{{s.Per, 0, 0}}
	case s.Algorithm == stint.TokenBucket: // in steps
		for k := range int64(mostWindows) {
			length := time.Duration(k+1) * s.Per
			all = append(all, windowBound{length, capacity + k*requests, s.Per}, windowBound{length, capacity + (k+1)*requests, 0})
		}
	case s.Algorithm == stint.FixedWindow && s.FromFirst:
		// A stretch of k windows meets at most k+1 windows, because they do not overlap.
		for k := range int64(mostWindows) {
			all = append(all, windowBound{time.Duration(k+1) * s.Per, (k + 2) * requests, 0})
		}
	case s.Algorithm == stint.FixedWindow:
		return []windowBound{{s.Per, requests, s.Per}, {s.Per, 2 * requests, 0}}
	case s.Algorithm == stint.SlidingWindow:
		return []windowBound{{s.Per, requests, s.Per / time.Duration(s.Blocks)}, {s.Per, 2 * requests, 0}}
	default: // a log
		return []windowBound{{s.Per, requests, 0}}
	}
	return all
}

// windowCheck checks the bounds of a limit.
func windowCheck(s stint.Spec, capacity int64, phase Phase) keyCheck {
	bounds := boundsOf(s, capacity)
	return func(passed []Passed) *Window {
		var worst, aligned *Window
		var arcs []arc
		for _, b := range bounds {
			over, most := b.exceeded(passed)
			switch {
			case most == nil:
			case b.period == 0:
				worst = more(worst, most)
			default:
				aligned = more(aligned, most)
				for _, o := range over {
					arcs = append(arcs, o.shrunk(phase).on(b.period, phase.Zero)...)
				}
			}
		}
		if aligned != nil && covers(arcs, bounds[0].period, phase.Error) {
			worst = more(worst, aligned)
		}
		return worst
	}
}

func more(a, b *Window) *Window {
	if a == nil || b.Over() > a.Over() {
		return b
	}
	return a
}

// arc is a range of times, from exclusive, to inclusive.
type arc struct{ from, to time.Duration }

// exceeded returns the beginnings of windows in which certainly more passed than may, and the worst of them.
func (b windowBound) exceeded(passed []Passed) (over []arc, worst *Window) {
	// The clock that decides may be faster; then its window is shorter here.
	length := b.length - time.Duration(float64(b.length)*clockDrift) - clockGrain
	// A call is inside a window that begins after Answered - length, and not after Sent.
	type edge struct {
		at   time.Duration
		cost int64
	}
	edges := make([]edge, 0, 2*len(passed))
	for _, p := range passed {
		if from := p.Answered - length; from < p.Sent {
			edges = append(edges, edge{from, int64(p.Cost)}, edge{p.Sent, -int64(p.Cost)})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.cost, b.cost)) })
	sum := int64(0)
	for i, e := range edges[:max(len(edges)-1, 0)] {
		sum += e.cost
		if next := edges[i+1].at; sum > b.may && next > e.at {
			if n := len(over); n > 0 && over[n-1].to == e.at {
				over[n-1].to = next
			} else {
				over = append(over, arc{e.at, next})
			}
			worst = more(worst, &Window{From: next.Seconds(), Length: b.length.Seconds(), Passed: sum, May: float64(b.may)})
		}
	}
	return over, worst
}

// shrunk leaves out beginnings that the drift of clocks since the run began may have moved, unless the error of the clock is known.
func (a arc) shrunk(phase Phase) arc {
	if phase.Error >= 0 {
		return a
	}
	drift := func(d time.Duration) time.Duration { return time.Duration(float64(max(d, -d)) * clockDrift) }
	return arc{a.from + drift(a.from), a.to - drift(a.to)}
}

// on returns the arc on a circle: as parts of 0 to period.
func (a arc) on(period time.Duration, zero int64) []arc {
	length := a.to - a.from
	if length <= 0 {
		return nil
	}
	if length >= period {
		return []arc{{0, period}}
	}
	from := (time.Duration(zero%int64(period)) + a.from%period + 2*period) % period
	if from+length <= period {
		return []arc{{from, from + length}}
	}
	return []arc{{from, period}, {0, from + length - period}}
}

// covers reports whether arcs have all beginnings of windows that are possible.
func covers(arcs []arc, period, clockError time.Duration) bool {
	if clockError < 0 || 2*clockError >= period {
		return covered(arcs, 0, period)
	}
	clockError = max(clockError, clockGrain)
	return covered(arcs, 0, clockError) && covered(arcs, period-clockError, period)
}

// covered reports whether arcs have every time from from to to.
func covered(arcs []arc, from, to time.Duration) bool {
	slices.SortFunc(arcs, func(a, b arc) int { return cmp.Compare(a.from, b.from) })
	for _, a := range arcs {
		if a.from > from {
			break
		}
		from = max(from, a.to)
	}
	return from >= to
}
