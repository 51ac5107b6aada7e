package rule

import (
	"math/big"
	"time"

	"stint"
)

// LocalLimit returns the limit of one process while the store fails, for `on_store_failure: local`: a
// share of rate and burst, divided by the number of nodes and rounded down. It returns nil if less
// than one request is left, and for an unlimited limit.
func LocalLimit(of *stint.Limit, share Ratio, nodes uint32) *stint.Limit {
	if of.Algorithm() == stint.Unlimited {
		return nil
	}
	spec := of.Spec()
	spec.CarryDebt = false   // such a process has no debts
	spec.StartUsedUp = false // a process that starts has its whole share
	atOnce := part(of.Capacity(), share, nodes)
	switch {
	case spec.Algorithm == stint.TokenBucket && !spec.Step, spec.Algorithm == stint.LeakyBucket:
		spec.Requests, spec.Per = slower(spec.Requests, spec.Per, share, nodes)
	default:
		spec.Requests = uint32(part(int64(spec.Requests), share, nodes))
	}
	if atOnce == 0 || spec.Requests == 0 {
		return nil
	}
	switch spec.Algorithm {
	case stint.TokenBucket:
		spec.Burst = uint32(atOnce)
	case stint.LeakyBucket:
		spec.Burst = uint32(atOnce - 1) // one more is being served
	}
	local, err := stint.NewLimit(spec)
	if err != nil {
		return nil // slower than the slowest limit that there is
	}
	return local
}

// part returns one node's share of n, rounded down.
func part(n int64, share Ratio, nodes uint32) int64 {
	if nodes == 0 {
		return 0
	}
	part := new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(share)))
	return part.Div(part, big.NewInt(int64(Whole)*int64(nodes))).Int64()
}

// slower returns one node's share of a steady rate, exact to the microsecond between two requests. It
// returns 0 requests if that is longer than any period.
func slower(requests uint32, per time.Duration, share Ratio, nodes uint32) (uint32, time.Duration) {
	divisor := new(big.Int).Mul(big.NewInt(int64(requests)), big.NewInt(int64(share)))
	if divisor.Sign() == 0 || nodes == 0 {
		return 0, per
	}
	apart := new(big.Int).Mul(big.NewInt(per.Microseconds()), big.NewInt(int64(Whole)*int64(nodes)))
	apart.Add(apart, divisor)
	apart.Div(apart.Sub(apart, big.NewInt(1)), divisor) // rounded up
	if !apart.IsInt64() || apart.Int64() > stint.MaxPer.Microseconds() {
		return 0, per
	}
	each := time.Duration(apart.Int64()) * time.Microsecond
	n := (stint.MinPer + each - 1) / each // the shortest period is MinPer
	return uint32(n), n * each
}
