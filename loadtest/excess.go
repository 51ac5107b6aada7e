package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"stint"
)

// Passed is an allowed call. The service decided it at some time from Sent to Answered, which are by the clock of this machine
// and since any fixed moment.
type Passed struct {
	Key            int
	Cost           uint32
	Sent, Answered time.Duration
}

// byKey orders calls by key.
func byKey(a, b Passed) int { return cmp.Compare(a.Key, b.Key) }

const (
	// clockDrift is by how much two clocks may differ in speed: NTP corrects them by at most this.
	clockDrift = 500e-6

	// clockGrain covers the rounding of times to microseconds.
	clockGrain = 2 * time.Microsecond
)

// Phase is what is known about the beginnings of windows at multiples of a time.
type Phase struct {
	Zero  int64         // Unix time, in nanoseconds, of the moment that times of calls count from
	Error time.Duration // how far the deciding clock may be from it; negative: unknown
}

func (p *Plan) phase(began time.Time) Phase { return Phase{began.UnixNano(), p.ClockError} }

// Finding is the result of a check.
type Finding struct {
	Limit     string  `json:"limit"`
	Bound     string  `json:"bound"` // what may pass
	Checked   int64   `json:"checked"`
	Unchecked int64   `json:"unchecked"` // allowed calls that were not stored
	Exceeded  bool    `json:"exceeded"`
	Worst     *Window `json:"worst,omitempty"` // where Exceeded
}

// Window is a stretch of time in which more passed than may.
type Window struct {
	Key    int     `json:"key"`
	From   float64 `json:"from_s"` // since the run began
	Length float64 `json:"length_s"`
	Passed int64   `json:"passed"` // units of calls that were sent and answered inside
	May    float64 `json:"may"`
}

// Over returns by how many units the window exceeds the limit; negative if it does not.
func (w *Window) Over() float64 { return float64(w.Passed) - w.May }

// checkable returns an error for a limit that Excess cannot check.
func checkable(l *stint.Limit) error {
	spec := l.Spec()
	if err := l.Check(); err != nil {
		return err
	}
	switch {
	case spec.Algorithm == stint.Penalty || spec.Algorithm == stint.Unlimited:
		return fmt.Errorf("loadtest: cannot check whether %v is exceeded", spec.Algorithm)
	case spec.Calendar != stint.NoPeriod:
		return fmt.Errorf("loadtest: cannot check limits per %v of the calendar", spec.Calendar)
	case spec.CarryDebt || spec.Overdraw:
		return fmt.Errorf("loadtest: cannot check limits with debts")
	}
	return nil
}

// Excess checks whether more of passed was allowed than each key's limit allows. It reports an excess only if no order of the
// decisions explains it: a call counts in a window only if it was sent and answered inside, and clocks may differ
// in speed by 0.05 %. It presumes that the deciding clock is not set during the run. passed is ordered by Key.
func Excess(limit *stint.Limit, passed []Passed, phase Phase) Finding {
	spec := limit.Spec()
	f := Finding{Limit: describe(spec), Checked: int64(len(passed))}
	check := bucketCheck(limit)
	if check == nil {
		check = windowCheck(spec, limit.Capacity(), phase)
	}
	f.Bound = bound(spec, limit.Capacity())
	for len(passed) > 0 {
		n := 1
		for n < len(passed) && passed[n].Key == passed[0].Key {
			n++
		}
		if w := check(passed[:n]); w != nil && (f.Worst == nil || w.Over() > f.Worst.Over()) {
			w.Key = passed[0].Key
			f.Worst, f.Exceeded = w, true
		}
		passed = passed[n:]
	}
	return f
}

// describe returns the numbers of a limit.
func describe(s stint.Spec) string {
	text := fmt.Sprintf("%v %d per %v", s.Algorithm, s.Requests, s.Per)
	switch {
	case s.Algorithm == stint.TokenBucket || s.Algorithm == stint.LeakyBucket:
		text += fmt.Sprintf(", burst %d", s.Burst)
	case s.Algorithm == stint.SlidingWindow && s.Blocks > 1:
		text += fmt.Sprintf(", %d blocks", s.Blocks)
	}
	if s.Step {
		text += ", refilled in steps"
	}
	if s.FromFirst {
		text += ", windows from the first request"
	}
	return text
}

// bound says what may pass.
func bound(s stint.Spec, capacity int64) string {
	switch {
	case s.Step:
		return fmt.Sprintf("%d, and %d for each multiple of %v inside a window", capacity, s.Requests, s.Per)
	case s.Algorithm == stint.TokenBucket || s.Algorithm == stint.LeakyBucket:
		return fmt.Sprintf("%d + %d per %v in any window", capacity, s.Requests, s.Per)
	case s.FromFirst:
		return fmt.Sprintf("%d in each window of %v that a first request opens", capacity, s.Per)
	case s.Algorithm == stint.FixedWindow || s.Algorithm == stint.SlidingWindow && s.Blocks == 1:
		return fmt.Sprintf("%d between two multiples of %v", capacity, s.Per)
	case s.Algorithm == stint.SlidingWindow:
		return fmt.Sprintf("%d in any %d blocks of %v in a row", capacity, s.Blocks, s.Per/time.Duration(s.Blocks))
	}
	return fmt.Sprintf("%d in any window of %v", capacity, s.Per)
}

// keyCheck returns the worst window of a key in which more passed than may; nil: none.
type keyCheck func(passed []Passed) *Window

// bucketCheck checks capacity + rate * T in any window of length T; nil for limits without a steady rate.
func bucketCheck(l *stint.Limit) keyCheck {
	spec := l.Spec()
	if spec.Algorithm != stint.LeakyBucket && (spec.Algorithm != stint.TokenBucket || spec.Step) {
		return nil
	}
	capacity, rate := float64(l.Capacity()), float64(spec.Requests)/spec.Per.Seconds()*(1+clockDrift)
	if spec.Requests == 0 {
		capacity = 0
	}
	capacity += rate * clockGrain.Seconds()
	return func(passed []Passed) *Window {
		// The sums have 53 bits, so far less than this is rounding.
		if w := WorstWindow(passed, capacity, rate); w.Over() >= 0.01 {
			return w
		}
		return nil
	}
}

// WorstWindow returns the window in which passed exceeds capacity + rate * seconds by the most, or comes nearest to it. passed has at least one
// call, and all are of one key. Unlike [Excess] it takes the clocks as they are.
func WorstWindow(passed []Passed, capacity, rate float64) *Window {
	// Calls are inserted from the last sent to the first. So all in the tree were sent in the window that begins with the
	// newest of them, and the tree has the best end of that window.
	byEnd := slices.Clone(passed)
	slices.SortFunc(byEnd, func(a, b Passed) int { return cmp.Compare(a.Answered, b.Answered) })
	order := make([]int, len(byEnd)) // indexes in byEnd, the last sent first
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(byEnd[b].Sent, byEnd[a].Sent) })
	tree := newPrefixTree(len(byEnd))
	var worst *Window
	for _, i := range order {
		tree.set(i, float64(byEnd[i].Cost), -rate*byEnd[i].Answered.Seconds())
		from := byEnd[i].Sent
		if over := tree.best() + rate*from.Seconds() - capacity; worst != nil && over <= worst.Over() {
			continue
		}
		end := tree.bestAt()
		length := (byEnd[end].Answered - from).Seconds()
		worst = &Window{From: from.Seconds(), Length: length, Passed: int64(tree.sum(end)), May: capacity + rate*length}
	}
	return worst
}
