package stint

import (
	"math/big"
	"time"
)

// Terms are what all takes of a rule have in common, for whoever stands between the caller
// and the store. They are immutable; takes of one rule share a pointer.
type Terms struct {
	// Domain and Rule name the rule, for people, and from one version of it to the next.
	Domain, Rule string

	// Limit is that of the takes.
	Limit *Limit

	// Own and Rest divide the limit: what each process has for itself at all times, and
	// what the store has for all of them. See Limit.Divide and package coord/share. Nil:
	// it is not divided.
	Own, Rest *Limit

	// Coordination and AfterLoss are those of the takes.
	Coordination Coordination
	AfterLoss    bool

	// Keys is how many keys of the rule a node keeps at most that decides by itself (see
	// Eventual); 0: as many as it has memory for.
	Keys int
}

// Divide divides a limit of which units can be lent (see Leasable) between so many
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
func (l *Limit) Divide(share *Limit, nodes uint32) (own, rest *Limit) {
	s := l.spec
	if s.Algorithm == FixedWindow {
		requests := int64(s.Requests) - int64(nodes)*share.most
		if requests <= 0 {
			return nil, nil
		}
		s.Requests = uint32(requests)
		own = MustLimit(Spec{Algorithm: SlidingLog, Requests: uint32(share.most), Per: l.longest()})
		return own, MustLimit(s)
	}
	burst := l.most - int64(nodes)*share.most
	if apart := l.apartBeside(share, nodes); burst > 0 && apart > 0 {
		n := (MinPer + apart - 1) / apart // periods have a least length
		s.Requests, s.Per, s.Burst = uint32(n), n*apart, uint32(burst)
		if rest, err := NewLimit(s); err == nil {
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
func (l *Limit) apartBeside(share *Limit, nodes uint32) time.Duration {
	per, c := big.NewInt(l.per), big.NewInt(share.charge)
	left := new(big.Int).Mul(big.NewInt(int64(l.spec.Requests)), c)
	left.Sub(left, new(big.Int).Mul(big.NewInt(int64(nodes)), per))
	if left.Sign() <= 0 {
		return 0
	}
	apart, over := new(big.Int).QuoRem(per.Mul(per, c), left, new(big.Int))
	if over.Sign() > 0 {
		apart.Add(apart, big.NewInt(1))
	}
	if !apart.IsInt64() || apart.Int64() > MaxPer.Microseconds() {
		return 0
	}
	return time.Duration(apart.Int64()) * time.Microsecond
}

// longest returns the longest that a fixed window lasts.
func (l *Limit) longest() time.Duration {
	const day = 24 * time.Hour
	switch l.spec.Calendar {
	case Day:
		return day + time.Hour
	case Week:
		return 7*day + time.Hour
	case Month:
		return 31*day + time.Hour
	case Year:
		return MaxPer
	}
	return l.spec.Per
}
