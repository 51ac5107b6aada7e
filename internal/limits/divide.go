package limits

import (
	"math/big"
	"time"

	"stint"
)

// Stored returns the limit by which the store decides takes with these terms.
func Stored(t *stint.Terms) *stint.Limit {
	if t.Own != nil {
		return t.Rest
	}
	return t.Limit
}

// Divide divides a limit whose units can be lent (see stint.StoreLimit.Leasable) between a number
// of processes, each with its own share, and a store with the rest. In every window all of them
// together let pass no more than the limit, although they do not communicate:
//
//	nodes * own.burst + rest.burst <= burst        nodes * own.rate + rest.rate <= rate
//
// Numbers are rounded down. For a fixed window each process has a sliding log of the length of the
// window: the clocks of machines differ about the start of a window, and a log is right for any
// start. For that purpose a month has at most 31 days, and a day an hour more than usual.
//
// It returns nil if nothing would remain for the store.
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
	s.RoundRate = true // the rest of a rate that NewLimit accepted
	burst := whole.Capacity() - int64(nodes)*share.Capacity()
	if apart := apartBeside(&s, share, nodes); burst > 0 && apart > 0 {
		n := (stint.MinPer + apart - 1) / apart // periods have a minimum length
		s.Requests, s.Per, s.Burst = uint32(n), n*apart, uint32(burst)
		if rest, err := stint.NewLimit(s); err == nil {
			return share, rest
		}
	}
	return nil, nil
}

// apartBeside returns the time between two units of a bucket that refills with the rest of the
// rate, when each of the processes has a share of it, rounded up; 0 if nothing remains. With c the
// charge of a share in microseconds that is
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

// LongestPeriod returns the period of a limit, for windows of the calendar that of the longest.
func LongestPeriod(l *stint.Limit) time.Duration {
	s := l.Spec()
	return longest(&s)
}

// longest returns the longest duration of a fixed window.
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
