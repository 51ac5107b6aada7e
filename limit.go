package stint

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Algorithm is the way a limit counts.
type Algorithm uint8

// The algorithms. docs/algorithms.md walks one bucket of each through its life.
const (
	// FixedWindow counts per window and starts again at zero with the next one. Up
	// to twice the limit may pass over an edge. The zero Algorithm.
	FixedWindow Algorithm = iota

	// TokenBucket has up to Burst tokens and is refilled steadily, or in steps. In any time T at
	// most Burst + T*rate pass. The steady form is the generic cell rate algorithm of ITU-T I.371:
	// one number is its whole state.
	TokenBucket

	// LeakyBucket is a queue with a steady outflow: what passes carries the delay
	// after which it is let go, so that the output is spaced exactly Per/Requests.
	LeakyBucket

	// SlidingLog remembers when everything of the last Per passed, so every window
	// of that length is exact.
	SlidingLog

	// SlidingWindow counts in blocks and weighs the oldest by the part of it that is
	// still inside the window. Its error is at most one block's traffic.
	SlidingWindow

	// Unlimited lets everything pass and has no state.
	Unlimited

	// Penalty counts what a limit denied and keeps its key away, longer each time. It stands beside
	// a limit, and is none by itself: see penalty.go.
	Penalty
)

var algorithmNames = [...]string{"fixed_window", "token_bucket", "leaky_bucket", "sliding_log", "sliding_window", "unlimited", "penalty"}

// String returns the name that files and flags use, such as "token_bucket".
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// ParseAlgorithm returns the algorithm of that name. The error names the known ones. Penalty is not
// among them, as it is no limit.
func ParseAlgorithm(name string) (Algorithm, error) {
	for i, n := range algorithmNames[:Penalty] {
		if n == name {
			return Algorithm(i), nil
		}
	}
	return 0, &SpecError{
		Field: "algorithm", Problem: fmt.Sprintf("unknown algorithm %q", name),
		Hint: "known are token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_window",
	}
}

// Period is a calendar period in a time zone, for fixed windows that follow it.
type Period uint8

// The calendar periods. A week starts on Monday.
const (
	NoPeriod Period = iota
	Day
	Week
	Month
	Year
)

var periodNames = [...]string{"", "day", "week", "month", "year"}

// String returns the name of the period, "" for NoPeriod.
func (p Period) String() string { return periodNames[p%Period(len(periodNames))] }

// Bounds of the parameters of a limit.
const (
	MinPer    = 10 * time.Millisecond
	MaxPer    = 366 * 24 * time.Hour
	MaxBlocks = 4096

	// MaxFill is the longest a token or leaky bucket may take to come back to its
	// untouched state.
	MaxFill = 50 * 365 * 24 * time.Hour
)

// Spec defines a limit, in the form that people write; [NewLimit] checks it. Fields that the
// algorithm does not use must be zero.
type Spec struct {
	// Algorithm is how to count; the zero value is FixedWindow.
	Algorithm Algorithm

	// Requests per Per is the rate. 0 requests denies every cost above 0, for ever.
	Requests uint32
	// Per is 10 ms to 366 days in whole microseconds. Left zero with a Calendar.
	Per time.Duration

	// Burst is the capacity of a token_bucket (0 means Requests), or how many may
	// wait in a leaky_bucket beside the one being served (0: none).
	Burst uint32

	// Step refills a token_bucket by Requests at once at each multiple of Per since
	// the Unix epoch, not steadily.
	Step bool

	// Reserve makes each take of a token_bucket a reservation, until it is settled or given back.
	// Meanwhile the bucket refills only to Burst minus the reserved units, so that giving back
	// undoes exactly that take. See [Limit.Settle] and [MaxReservation]. Other algorithms do not
	// need it.
	Reserve bool

	// MaxWait denies takes that would wait longer in a leaky_bucket. 0: there is no such bound.
	MaxWait time.Duration

	// FromFirst opens a fixed_window at the key's first taken request, not at
	// multiples of Per since the Unix epoch.
	FromFirst bool

	// CarryDebt makes a fixed_window carry what was debited beyond it (see Force) into the
	// windows that follow, until it is worked off, each by its Requests. Decisions say how
	// much that is, see [Decision.Debt]. Only for windows at multiples of Per. Rules say it
	// where nodes decide by themselves and add up later: then what passes too much does so
	// once, not in each window.
	CarryDebt bool

	// Calendar makes a fixed_window follow the calendar of Zone (nil: UTC). Anchor is the day, 1 to
	// 31, on which each window of a Month begins: the last day of a month that is shorter. 0 means 1.
	Calendar Period
	Anchor   uint8
	Zone     *time.Location

	// MinInterval is the least distance between two takes of a sliding_log, at most
	// Per. 0: none.
	MinInterval time.Duration

	// Blocks is how many parts a sliding_window counts in; 0 means 1. More blocks
	// are more exact and cost 4 to 12 bytes a key each. They must divide Per into
	// whole microseconds.
	Blocks int

	// StartUsedUp makes a sliding_window count what came before a key's first request as
	// used up, so that nobody has a second burst after a restart: an untouched key is
	// answered as if Requests units had been taken evenly over the Blocks blocks before
	// the current one, the remainder in the newer ones. The first take that passes
	// writes them down, and they slide out of the window like any others; so does the
	// first that asks for more than the oldest block's share. Any other denied first
	// try changes nothing, and the next is judged against its own time. Giving the first
	// take back leaves the window as it began. A key that was idle for its window
	// and one block more is untouched again, and so is one that was reset.
	StartUsedUp bool

	// CountDenied also records denied takes in a sliding_log: a client that keeps trying stays
	// denied.
	CountDenied bool

	// Overdraw debits a take in full even where it is denied (a debt), so that a
	// cost known only afterwards is never lost.
	Overdraw bool

	// Ladder, Decay and Jitter belong to a penalty: Requests is how many denied tries within Per
	// start nothing; the next one starts a step. Ladder is how long each step lasts, such as
	// "1m 10m 1h 24h": 1 to 16 growing durations. Decay is after how long without a denied try a
	// key is one step further down, at least Per. Jitter is by how many millionths of its length a
	// step may be longer, at most a million.
	Ladder string
	Decay  time.Duration
	Jitter uint32

	// RoundRate accepts a steady token_bucket or leaky_bucket that admits over 1 % less than
	// Requests per Per, because the time of one request is rounded up to a whole microsecond:
	// 600,000 per second become 500,000. Without it [NewLimit] refuses such rates. [Limit.Rate]
	// returns the admitted rate. All other limits ignore RoundRate.
	RoundRate bool
}

// SpecError is the error of a wrong Spec, in the words of a rule file.
type SpecError struct {
	Field   string // the word of the rule file, such as "burst"
	Problem string // the problem
	Hint    string // what to do
}

// Error returns the field and the problem. The hint stands apart.
func (e *SpecError) Error() string { return e.Field + ": " + e.Problem }

// Limit is a checked Spec with its numbers worked out. It is immutable and safe
// for concurrent use; make it once and use it for any number of keys. The zero
// Limit is not usable: stores answer it with [ErrNoLimit], and its own methods that
// decide panic. See [NewLimit].
type Limit struct {
	// What a decision reads comes first, so that it shares a cache line.
	most    int64  // Decision.Limit
	charge  int64  // of one unit: microseconds, or units of a step clock
	full    int64  // capacity in the same measure
	inverse uint64 // of charge, see inverse
	wait    int64  // max_wait in microseconds, MaxInt64 where there is none
	per     int64  // microseconds; 0 for calendar windows
	block   int64  // length of a block in microseconds
	tick    int64  // what the times of a log count in, in microseconds: 1, or block
	packed  bool   // the state is one word, see Pack
	smooth  bool   // a token bucket that refills steadily

	ladder *[]int64 // lengths of the steps of a penalty, in microseconds; nil for all others, which it costs only 8 bytes

	spec Spec
}

// NewLimit checks spec and works out its numbers. The error is a [*SpecError].
func NewLimit(spec Spec) (*Limit, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if spec.Algorithm == TokenBucket && spec.Burst == 0 {
		spec.Burst = spec.Requests
	}
	if spec.Algorithm == SlidingWindow && spec.Blocks == 0 {
		spec.Blocks = 1
	}
	l := &Limit{spec: spec, per: spec.Per.Microseconds(), most: int64(spec.Requests), wait: math.MaxInt64}
	if err := l.prepare(); err != nil {
		return nil, err
	}
	if spec.Requests == 0 && spec.Algorithm != Unlimited {
		l.most = 0
	}
	return l, nil
}

// MustLimit is NewLimit for specs that stand in the source; it panics on an error.
func MustLimit(spec Spec) *Limit {
	l, err := NewLimit(spec)
	if err != nil {
		panic("stint: " + err.Error())
	}
	return l
}

// Spec returns what the limit was made from, with the defaults filled in.
func (l *Limit) Spec() Spec { return l.spec }

// Algorithm returns how the limit counts.
func (l *Limit) Algorithm() Algorithm { return l.spec.Algorithm }

// Capacity returns the most units that can be taken at once from an untouched key,
// NoLimit for an unlimited one.
func (l *Limit) Capacity() int64 { return l.most }

// Rate returns how many units per second the limit admits in the long run: Requests per Per, and
// for a steady token_bucket or leaky_bucket the rate after the time of one request is rounded up to
// a whole microsecond. A month counts as 30.436875 days and a year as 365.2425. Rate is +Inf for an
// unlimited limit, and 0 for the zero Limit. It ignores MinInterval and MaxWait.
func (l *Limit) Rate() float64 {
	switch {
	case l.spec.Algorithm == Unlimited:
		return math.Inf(1)
	case l.most == 0:
		return 0
	case l.evenly():
		return 1e6 / float64(l.charge)
	}
	return float64(l.spec.Requests) / span(l.length()).Seconds()
}

// evenly reports whether the limit is a bucket that is refilled, or flows out, steadily.
func (l *Limit) evenly() bool {
	return l.smooth || l.spec.Algorithm == LeakyBucket
}

// Check returns [ErrNoLimit] for a nil limit and for the zero Limit.
func (l *Limit) Check() error {
	if l == nil || l.per == 0 && l.most == 0 && l.spec.Calendar == NoPeriod {
		return ErrNoLimit
	}
	return nil
}

// same is [StoreLimit.Same].
func (l *Limit) same(other *Limit) bool {
	if l == other {
		return true
	}
	a, b := &l.spec, &other.spec
	return a.Algorithm == b.Algorithm && a.Requests == b.Requests && a.Per == b.Per && a.Burst == b.Burst &&
		a.Step == b.Step && a.Reserve == b.Reserve && a.FromFirst == b.FromFirst && a.CarryDebt == b.CarryDebt && a.Blocks == b.Blocks && a.StartUsedUp == b.StartUsedUp &&
		a.sameCalendar(b) && a.Ladder == b.Ladder && a.Decay == b.Decay && a.Jitter == b.Jitter
}

// sameCalendar reports whether the windows of two limits begin at the same times of the calendar.
func (s *Spec) sameCalendar(other *Spec) bool {
	return s.Calendar == other.Calendar && max(1, s.Anchor) == max(1, other.Anchor) && sameZone(s.Zone, other.Zone)
}

func sameZone(a, b *time.Location) bool {
	if a == nil {
		a = time.UTC
	}
	if b == nil {
		b = time.UTC
	}
	return a == b || a.String() == b.String()
}

// prepare works out the numbers of a checked spec.
func (l *Limit) prepare() error {
	s := &l.spec
	switch s.Algorithm {
	case Unlimited:
		l.most = NoLimit
	case TokenBucket:
		l.smooth = !s.Step
		return l.prepareBucket(int64(s.Burst))
	case LeakyBucket:
		if s.MaxWait > 0 {
			l.wait = s.MaxWait.Microseconds()
		}
		return l.prepareBucket(int64(s.Burst) + 1)
	case FixedWindow:
		if !s.FromFirst && !s.CarryDebt && s.Calendar == NoPeriod {
			l.packed = bits.Len64(maxDebt*uint64(s.Requests)) <= l.countBits()
		}
	case SlidingWindow:
		l.block = l.per / int64(s.Blocks)
		l.tick = l.block
	case SlidingLog:
		l.tick = 1
	case Penalty:
		return l.prepareLadder()
	}
	return nil
}

// prepareBucket computes charge and capacity of the two buckets. A charge rounds up to the
// microsecond and the capacity is a multiple of it, so an untouched key has exactly the units of
// the limit, and the rate is never exceeded.
func (l *Limit) prepareBucket(capacity int64) error {
	l.packed = !l.spec.Reserve
	l.most = capacity
	if l.spec.Requests == 0 {
		return nil
	}
	requests := int64(l.spec.Requests)
	if requests > l.per {
		return &SpecError{
			Field: "requests", Problem: fmt.Sprintf("%d per %v is more than 10^6 per second", requests, l.spec.Per),
			Hint: "lower the rate, or use fixed_window or sliding_window, which have no such bound",
		}
	}
	l.charge = (l.per + requests - 1) / requests
	if l.evenly() && !l.spec.RoundRate && l.charge*requests*99 > l.per*100 {
		return &SpecError{
			Field:   "requests",
			Problem: fmt.Sprintf("%d per %v would admit only %.6g per second: one request is rounded up to %d microseconds", requests, l.spec.Per, l.Rate(), l.charge),
			Hint:    "choose a rate whose period divides into whole microseconds, use fixed_window or sliding_window, or accept it with Spec.RoundRate",
		}
	}
	steps := (capacity + requests - 1) / requests
	most := MaxFill.Microseconds()
	if capacity > most/l.charge || steps > most/l.per {
		return &SpecError{
			Field: "burst", Problem: fmt.Sprintf("%d at %d per %v takes more than 50 years to refill", capacity, requests, l.spec.Per),
			Hint: "lower the burst or raise the rate",
		}
	}
	l.full = capacity * l.charge
	if l.spec.Step {
		l.charge, l.full = 1, capacity
	}
	l.inverse = inverse(l.charge, l.full)
	return nil
}
