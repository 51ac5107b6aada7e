package limits

import (
	"math/big"
	"time"

	"stint"
)

// Divide divides a limit of which units can be lent (see stint.StoreLimit.Leasable) between so many
// processes, each of which has a share to itself, and a store that has the rest. In every
// window all of them together let no more pass than the limit does, though they know nothing
// of each other:
//
//	nodes * own.burst + rest.burst <= burst        nodes * own.rate + rest.rate <= rate
//
// What is rounded is rounded down. Of a fixed window each process has a sliding log of the
// length of the window: clocks of machines do not agree when a window begins, and a log
// holds in any. A month has at most 31 days for that, and a day an hour more than it mostly
// has.
//
// It returns nil where nothing would be left for the store.
func Divide(whole, share *stint.Limit, nodes uint32) (own, rest *stint.Limit) {
	s := whole.Spec()
	if s.Algorithm == stint.FixedWindow {
		requests := int64(s.Requests) - int64(nodes)*share.Capacity()
		if requests <= 0 {
			return nil, nil
		}
		s.Requests = uint32(requests)
		own = stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: uint32(share.Capacity()), Per: longest(&s)})
		return own, stint.MustLimit(s)
	}
	s.RoundRate = true // what is left of a rate that was accepted
	burst := whole.Capacity() - int64(nodes)*share.Capacity()
	if apart := apartBeside(&s, share, nodes); burst > 0 && apart > 0 {
		n := (stint.MinPer + apart - 1) / apart // periods have a least length
		s.Requests, s.Per, s.Burst = uint32(n), n*apart, uint32(burst)
		if rest, err := stint.NewLimit(s); err == nil {
			return share, rest
		}
	}
	return nil, nil
}

// apartBeside returns how far apart two units of a bucket are that refills with what is left
// of the rate when each of so many processes has a share of it, rounded up: 0 if nothing is.
// With c the charge of a share in microseconds that is
//
//	1 / (requests/per - nodes/c) = per*c / (requests*c - nodes*per)
func apartBeside(s *stint.Spec, share *stint.Limit, nodes uint32) time.Duration {
	part := share.Spec()
	charge := (part.Per.Microseconds() + int64(part.Requests) - 1) / int64(part.Requests)
	per, c := big.NewInt(s.Per.Microseconds()), big.NewInt(charge)
	left := new(big.Int).Mul(big.NewInt(int64(s.Requests)), c)
	left.Sub(left, new(big.Int).Mul(big.NewInt(int64(nodes)), per))
	if left.Sign() <= 0 {
		return 0
	}
	apart, over := new(big.Int).QuoRem(per.Mul(per, c), left, new(big.Int))
	if over.Sign() > 0 {
		apart.Add(apart, big.NewInt(1))
	}
	if !apart.IsInt64() || apart.Int64() > stint.MaxPer.Microseconds() {
		return 0
	}
	return time.Duration(apart.Int64()) * time.Microsecond
}

// longest returns the longest that a fixed window lasts.
func longest(s *stint.Spec) time.Duration {
	const day = 24 * time.Hour
	switch s.Calendar {
	case stint.Day:
		return day + time.Hour
	case stint.Week:
		return 7*day + time.Hour
	case stint.Month:
		return 31*day + time.Hour
	case stint.Year:
		return stint.MaxPer
	}
	return s.Per
}
