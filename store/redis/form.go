package redis

import (
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"

	"stint"
)

// form is what a limit looks like to the scripts.
type form struct {
	limit   *stint.Limit
	head    string // letter and numbers, see lua/common.lua
	flags   int64
	wait    int64 // max_wait or min_interval in microseconds, -1 for none
	kinds   kindSet
	quick   *quickForm // nil where quick.lua cannot decide it
	effects bool       // a denied take may change its state
	// bounds are where the windows of a calendar around a time begin; nil for others.
	bounds   atomic.Pointer[[]int64]
	calendar bool
}

// Flags of a take, see lua/decide.lua.
const (
	flagOverdraw = 1 << iota
	flagCountDenied
	flagHeld
	flagOnly
	flagUndo
	flagLeans
	flagLoan
)

// forms remembers the forms of limits. It is emptied when it holds maxForms, for
// programs that make a new limit for every call.
type forms struct {
	known sync.Map // *stint.Limit: *form
	count atomic.Int64
}

const maxForms = 1 << 16

func (f *forms) of(limit *stint.Limit) *form {
	if known, ok := f.known.Load(limit); ok {
		return known.(*form)
	}
	if f.count.Add(1) > maxForms {
		f.known.Clear()
		f.count.Store(0)
	}
	made := newForm(limit)
	f.known.Store(limit, made)
	return made
}

func newForm(limit *stint.Limit) *form {
	s := limit.Spec()
	f := &form{limit: limit, wait: -1, calendar: s.Calendar != stint.NoPeriod, head: head(s), effects: s.CountDenied || s.StartUsedUp}
	f.kinds = kindsOf(f.head)
	f.quick = newQuickForm(limit, f.head)
	if s.Overdraw {
		f.flags |= flagOverdraw
	}
	if s.CountDenied {
		f.flags |= flagCountDenied
	}
	switch {
	case s.Algorithm == stint.SlidingLog:
		f.wait = s.MinInterval.Microseconds()
	case s.MaxWait > 0:
		f.wait = s.MaxWait.Microseconds()
	}
	return f
}

// head returns the letter and the numbers of a limit, as they stand in states.
func head(s stint.Spec) string {
	per := s.Per.Microseconds()
	switch s.Algorithm {
	case stint.TokenBucket:
		letter := "b"
		switch {
		case s.Reserve && s.Step:
			letter = "i"
		case s.Reserve:
			letter = "h"
		case s.Step:
			letter = "s"
		}
		return fmt.Sprintf("1%s %d %d %d", letter, s.Requests, per, s.Burst)
	case stint.LeakyBucket:
		return fmt.Sprintf("1q %d %d %d", s.Requests, per, s.Burst)
	case stint.SlidingLog:
		return fmt.Sprintf("1l %d %d", s.Requests, per)
	case stint.SlidingWindow:
		letter := "k"
		if s.StartUsedUp {
			letter = "m"
		}
		return fmt.Sprintf("1%s %d %d %d", letter, s.Requests, per, s.Blocks)
	case stint.Unlimited:
		return "1u"
	}
	switch {
	case s.Calendar != stint.NoPeriod:
		zone := "UTC"
		if s.Zone != nil {
			zone = url.PathEscape(s.Zone.String()) // no space and no bar
		}
		return fmt.Sprintf("1c %d %d %s", s.Requests, s.Calendar, zone)
	case s.FromFirst:
		return fmt.Sprintf("1f %d %d", s.Requests, per)
	case s.CarryDebt:
		return fmt.Sprintf("1d %d %d", s.Requests, per)
	}
	return fmt.Sprintf("1w %d %d", s.Requests, per)
}

// kindsOf returns the files that know how to count under a head.
func kindsOf(head string) kindSet {
	switch head[:min(2, len(head))] {
	case "1b", "1s", "1q":
		return bucketKind
	case "1h", "1i":
		return bucketKind | holdKind
	case "1w", "1f", "1c", "1d":
		return windowKind
	case "1l":
		return logKind
	case "1k", "1m":
		return slidingKind
	case "~": // what stands behind a state of which something is lent
		return lendKind
	}
	return 0
}

// around returns where the windows of the calendar begin: the one that holds now, the
// one before it, the one after it, and the one after that.
func (f *form) around(now stint.Instant) []int64 {
	if known := f.bounds.Load(); known != nil && (*known)[1] <= int64(now) && int64(now) < (*known)[2] {
		return *known
	}
	end := func(at stint.Instant) stint.Instant {
		return at.Add(f.limit.Test(new(stint.State), at, 0).ResetAfter)
	}
	next := end(now)
	start := f.start(now)
	bounds := []int64{int64(f.start(start - 1)), int64(start), int64(next), int64(end(next))}
	f.bounds.Store(&bounds)
	return bounds
}

// start returns when the window that holds at begins.
func (f *form) start(at stint.Instant) stint.Instant {
	var st stint.State
	f.limit.Force(&st, at, 1)
	if st.N == 0 { // of no requests: the window is as good from here on
		return at
	}
	return stint.Instant(st.T)
}
