package model

import (
	"math/rand/v2"
	"time"

	"stint"
)

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// RandomLimit returns a limit of any algorithm.
func RandomLimit(r *rand.Rand) *stint.Limit {
	if r.IntN(20) == 0 {
		return stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	}
	return RandomLimitOf(r, pick(r, stint.FixedWindow, stint.TokenBucket, stint.LeakyBucket, stint.SlidingLog, stint.SlidingWindow, stint.Penalty))
}

// RandomLimitOf returns a limit of an algorithm, mostly with small numbers.
func RandomLimitOf(r *rand.Rand, algorithm stint.Algorithm) *stint.Limit {
	if algorithm == stint.Unlimited {
		return stint.MustLimit(stint.Spec{Algorithm: algorithm})
	}
	if algorithm == stint.Penalty {
		return stint.MustLimit(randomPenalty(r))
	}
	spec := stint.Spec{
		RoundRate: true, Algorithm: algorithm,
		Requests: pick[uint32](r, 0, 1, 2, 3, 5, 10, 60, 1000),
		Per:      pick(r, 10*time.Millisecond, time.Second, 7*time.Second, time.Minute, time.Hour),
	}
	if r.IntN(8) == 0 {
		spec.Requests = pick[uint32](r, 1<<31, stint.MaxCost, 999_999_937, 1_000_000)
	}
	if r.IntN(8) == 0 {
		spec.Per = pick(r, 24*time.Hour, stint.MaxPer, time.Duration(1+r.Int64N(int64(time.Hour/time.Microsecond)))*time.Microsecond+stint.MinPer)
	}
	switch spec.Algorithm {
	case stint.TokenBucket:
		spec.Burst, spec.Step, spec.Overdraw = pick[uint32](r, 0, 1, 5, 20, 1_000_000), r.IntN(3) == 0, r.IntN(6) == 0
		spec.Reserve = r.IntN(3) == 0
	case stint.LeakyBucket:
		spec.Burst, spec.MaxWait = pick[uint32](r, 0, 1, 5, 20, 1_000_000), pick(r, 0, 0, time.Second, 10*time.Second, spec.Per)
	case stint.FixedWindow:
		spec.FromFirst, spec.Overdraw = r.IntN(3) == 0, r.IntN(6) == 0
		switch {
		case spec.FromFirst:
		case r.IntN(6) == 0:
			spec.Per, spec.Calendar = 0, pick(r, stint.Day, stint.Day, stint.Week) // no longer periods: deferred excess counts months by their mean length
		case r.IntN(3) == 0:
			spec.CarryDebt = true
		}
	case stint.SlidingLog:
		spec.MinInterval, spec.CountDenied, spec.Overdraw = pick(r, 0, 0, spec.Per/3).Truncate(time.Microsecond), r.IntN(4) == 0, r.IntN(6) == 0
	case stint.SlidingWindow:
		spec.Blocks, spec.Overdraw, spec.StartUsedUp = pick(r, 1, 2, 5, 10), r.IntN(6) == 0, r.IntN(3) == 0
	}
	return lowered(spec)
}

// randomPenalty returns the numbers of a penalty.
func randomPenalty(r *rand.Rand) stint.Spec {
	per := pick(r, 10*time.Millisecond, time.Second, 7*time.Second, time.Minute)
	return stint.Spec{
		Algorithm: stint.Penalty, Requests: pick[uint32](r, 1, 1, 2, 3, 10, stint.MaxCost), Per: per,
		Ladder: pick(r, "10ms", "1s", "1s 10s 1m", "1m 10m 1h 24h", "10ms 11ms 12ms 13ms 14ms 15ms 16ms 17ms 18ms 19ms 20ms 21ms 22ms 23ms 24ms 8784h"),
		Decay:  pick(r, per, time.Minute, time.Hour, stint.MaxPer), Jitter: pick[uint32](r, 0, 100_000, 333_333, 1_000_000),
	}
}

// lowered returns a limit of the spec, with a rate that its algorithm can count.
func lowered(spec stint.Spec) *stint.Limit {
	for {
		if l, err := stint.NewLimit(spec); err == nil {
			return l
		}
		spec.Requests, spec.Burst = (spec.Requests+9)/10, (spec.Burst+9)/10
		spec.Blocks = 0 // blocks may not divide the period
	}
}

// ChangedLimit returns a limit that differs from another in one or two numbers.
func ChangedLimit(r *rand.Rand, l *stint.Limit) *stint.Limit {
	spec, other := l.Spec(), RandomLimitOf(r, l.Algorithm()).Spec()
	if spec.Algorithm == stint.Penalty {
		switch r.IntN(3) {
		case 0:
			spec.Requests, spec.Jitter = other.Requests, other.Jitter
		case 1:
			spec.Ladder = other.Ladder
		case 2:
			spec.Per, spec.Decay = other.Per, other.Decay
		}
		return stint.MustLimit(spec)
	}
	if spec.Algorithm == stint.TokenBucket && spec.Burst == spec.Requests {
		spec.Burst = 0
	}
	for range 1 + r.IntN(2) {
		switch r.IntN(4) {
		case 0, 1:
			spec.Requests = other.Requests
		case 2:
			spec.Burst, spec.Overdraw, spec.CountDenied = other.Burst, other.Overdraw, other.CountDenied
			spec.StartUsedUp, spec.MaxWait = other.StartUsedUp, other.MaxWait
			spec.Reserve = other.Reserve
		case 3:
			if spec.Calendar == stint.NoPeriod && other.Calendar == stint.NoPeriod {
				spec.Per, spec.MinInterval = other.Per, other.MinInterval
			}
		}
	}
	return lowered(spec)
}

// Variants returns limits of requests per hour with every algorithm and variant; each has exactly
// that capacity. None refills within a tenth of a second.
func Variants(requests uint32) []*stint.Limit {
	var all []*stint.Limit
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket},
		{Algorithm: stint.TokenBucket, Step: true},
		{Algorithm: stint.TokenBucket, Reserve: true},
		{Algorithm: stint.LeakyBucket, Burst: requests - 1},
		{Algorithm: stint.FixedWindow},
		{Algorithm: stint.FixedWindow, FromFirst: true},
		{Algorithm: stint.FixedWindow, CarryDebt: true},
		{Algorithm: stint.SlidingLog},
		{Algorithm: stint.SlidingWindow, Blocks: 1},
		{Algorithm: stint.SlidingWindow, Blocks: 12},
	} {
		spec.Requests, spec.Per = requests, time.Hour
		all = append(all, stint.MustLimit(spec))
	}
	return append(all, stint.MustLimit(stint.Spec{Requests: requests, Calendar: stint.Month, Anchor: 15}))
}

// Name returns a different name for each variant.
func Name(limit *stint.Limit) string {
	spec := limit.Spec()
	text := spec.Algorithm.String()
	switch {
	case spec.Step:
		text += " in steps"
	case spec.Reserve:
		text += " that holds"
	case spec.FromFirst:
		text += " from the first"
	case spec.CarryDebt:
		text += " that carries its debt"
	case spec.Blocks > 1:
		text += " of blocks"
	case spec.Calendar != stint.NoPeriod:
		text += " of the calendar"
	}
	return text
}
