package script

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/limits"
)

// Form holds what the scripts need of a limit.
type Form struct {
	Limit   *stint.Limit
	Head    string // letter and numbers, see lua/common.lua
	Flags   int64  // flags of the limit: overdraw, count_denied
	Wait    int64  // max_wait or min_interval in microseconds, -1 for none
	Kinds   Kinds  // the Lua files of its algorithm
	Quick   *Quick // nil if quick.lua cannot decide it
	Effects bool   // a denied take may change its state
	// Calendar reports whether its windows follow the calendar and need [Form.Around].
	Calendar bool
	// bounds is the last result of Around, and starts that of aroundCarries.
	bounds, starts atomic.Pointer[[]int64]
}

// Flags of a take for decide.lua: what it does with the take, and which arguments follow.
const (
	flagOverdraw    = 1 << iota // see stint.Spec.Overdraw
	flagCountDenied             // see stint.Spec.CountDenied
	FlagSource                  // other takes of the group borrow from it
	FlagUnasked                 // it is in the group only as a source
	FlagUndo                    // the decision to undo follows
	FlagBorrows                 // its sources follow
	FlagLoan                    // its loan follows
	FlagUsage                   // its history follows
	FlagGrants                  // its grants follow
	FlagDurable                 // its ledger follows
)

// Forms caches the forms of limits; the zero Forms is empty. At maxForms entries it is emptied,
// for programs that make a new limit for every call. It is safe for concurrent use.
type Forms struct {
	known sync.Map // from *stint.Limit to *Form
	count atomic.Int64
}

const maxForms = 1 << 16

// Of returns the form of a limit.
func (f *Forms) Of(limit *stint.Limit) *Form {
	if known, ok := f.known.Load(limit); ok {
		return known.(*Form)
	}
	if f.count.Add(1) > maxForms {
		f.known.Clear()
		f.count.Store(0)
	}
	made := newForm(limit)
	f.known.Store(limit, made)
	return made
}

func newForm(limit *stint.Limit) *Form {
	s := limit.Spec()
	f := &Form{Limit: limit, Wait: -1, Calendar: s.Calendar != stint.NoPeriod, Head: head(s), Effects: s.CountDenied || s.StartUsedUp}
	f.Kinds = KindsOf(f.Head)
	f.Quick = newQuick(limit, f.Head)
	if s.Overdraw {
		f.Flags |= flagOverdraw
	}
	if s.CountDenied {
		f.Flags |= flagCountDenied
	}
	switch {
	case s.Algorithm == stint.SlidingLog:
		f.Wait = s.MinInterval.Microseconds()
	case s.MaxWait > 0:
		f.Wait = s.MaxWait.Microseconds()
	}
	return f
}

// Window reports whether the limit is a fixed_window, whose keys may have histories.
func (f *Form) Window() bool { return f.Limit.Algorithm() == stint.FixedWindow }

// head returns the letter and the numbers of a limit, as states begin with them.
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
	case stint.Penalty:
		return fmt.Sprintf("1p %d %d %d %d%s", s.Requests, per, s.Decay.Microseconds(), s.Jitter, ladder(s.Ladder))
	case stint.Unlimited:
		return "1u"
	}
	switch {
	case s.Calendar != stint.NoPeriod:
		zone := "UTC"
		if s.Zone != nil {
			zone = url.PathEscape(s.Zone.String()) // no space and no bar
		}
		if s.Anchor > 1 {
			zone += fmt.Sprintf("@%d", s.Anchor) // scripts compare it with the zone; no zone has an @
		}
		return fmt.Sprintf("1c %d %d %s", s.Requests, s.Calendar, zone)
	case s.FromFirst:
		return fmt.Sprintf("1f %d %d", s.Requests, per)
	case s.CarryDebt:
		return fmt.Sprintf("1d %d %d", s.Requests, per)
	}
	return fmt.Sprintf("1w %d %d", s.Requests, per)
}

// ladder returns the lengths of the steps in microseconds, each after a space.
func ladder(text string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(text) {
		step, _ := time.ParseDuration(word) // NewLimit has parsed it
		fmt.Fprintf(&b, " %d", step.Microseconds())
	}
	return b.String()
}

// KindsOf returns the Lua files for states with a head, 0 if there is none.
func KindsOf(head string) Kinds {
	switch head[:min(2, len(head))] {
	case "1b", "1s", "1q":
		return bucketKind
	case "1h", "1i":
		return bucketKind | reserveKind
	case "1w", "1f", "1c", "1d":
		return windowKind
	case "1l":
		return logKind
	case "1k", "1m":
		return slidingKind
	case "1p":
		return penaltyKind
	case "~": // the loans, at the end of a state
		return Lend
	}
	return 0
}

// Around returns the starts of four calendar windows in order of time: the one before now, the one
// that contains now, and the two after it.
func (f *Form) Around(now stint.Instant) []int64 {
	if known := f.bounds.Load(); known != nil && (*known)[1] <= int64(now) && int64(now) < (*known)[2] {
		return *known
	}
	end := func(at stint.Instant) stint.Instant {
		return at.Add(f.Limit.Test(new(stint.State), at, 0).ResetAfter)
	}
	next := end(now)
	start := f.start(now)
	bounds := []int64{int64(f.start(start - 1)), int64(start), int64(next), int64(end(next))}
	f.bounds.Store(&bounds)
	return bounds
}

// start returns the start of the window that contains at.
func (f *Form) start(at stint.Instant) stint.Instant {
	start, _ := f.Limit.ForStores().Window(new(stint.State), at)
	return start
}

// aroundCarries returns the starts of the windows around now, as many before and after those of Around as a
// carry may outlive.
func (f *Form) aroundCarries(now stint.Instant) (all []int64) {
	around := f.Around(now)
	const more = limits.MaxIdle + 1
	if known := f.starts.Load(); known != nil && (*known)[more] == around[0] {
		return *known
	}
	before := stint.Instant(around[0])
	for range more {
		before = f.start(max(0, before-1))
		all = append(all, int64(before))
	}
	slices.Reverse(all)
	all = append(all, around...)
	after := stint.Instant(around[len(around)-1])
	for range more {
		_, after = f.Limit.ForStores().Window(new(stint.State), after)
		all = append(all, int64(after))
	}
	f.starts.Store(&all)
	return all
}

// maxCost is larger than any capacity and any debt.
const maxCost = 1 << 48

// Append appends the arguments of decide.lua for a take, without those of sources and loans. around is
// a time within the calendar windows that the script gets; undo is nil if there is no such decision.
func (f *Form) Append(args []string, op stint.Op, cost uint64, flags int64, around stint.Instant, undo *stint.Decision) []string {
	args = append(args, f.Head, Number(int64(op)), Number(int64(min(cost, maxCost))), Number(flags), Number(f.Wait))
	if f.Calendar {
		bounds := f.Around(around)
		args = append(args, Number(int64(len(bounds))))
		for _, bound := range bounds {
			args = append(args, Number(bound))
		}
	}
	if undo != nil {
		args = append(args, Number(int64(undo.At)), Number(int64(undo.At.Add(undo.ResetAfter))), Number(undo.Limit-undo.Remaining))
	}
	return args
}

// maxText is the longest key, in bytes, that is stored as it is; longer ones are hashed.
const maxText = 128

// Key returns the key in Redis of a state, in a partition whose keys begin with prefix.
func Key(prefix string, algorithm stint.Algorithm, key stint.Key) string {
	if len(key) <= maxText {
		return prefix + algorithm.String() + ":" + string(key)
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + algorithm.String() + "#" + hex.EncodeToString(sum[:16])
}

// Fields is how many numbers decide.lua answers for each take.
const Fields = 8

// Decision returns the decision in decide.lua's answer about a take at a time. writes reports that a
// denial would change the state too.
func (f *Form) Decision(at stint.Instant, n []int64) (d stint.Decision, writes bool) {
	d = stint.Decision{
		Allowed: n[0] == 1, Limit: f.Limit.Capacity(), Remaining: max(0, n[1]), Debt: max(0, -n[1]),
		RetryAfter: Span(n[2]), ResetAfter: Span(n[3]), Delay: Span(n[4]), Over: n[5] == 1, At: at + stint.Instant(n[6]), Charged: uint32(n[7]),
	}
	if f.Limit.Algorithm() == stint.Penalty {
		d.Debt, d.Charged = n[7], 0
	}
	if n[2] < 0 {
		d.RetryAfter = stint.Never
	}
	return d, n[5] == 2
}
