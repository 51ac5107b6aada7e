package rulefile

import (
	"fmt"
	"math/big"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/rule"
)

// agree sets the terms of a rule. A leased rule with `local_share` divides its limit between the
// processes and the store.
func (l *limit) agree(r *rule.Rule) {
	r.Terms = &stint.Terms{Domain: r.Domain, Rule: r.Name, Limit: r.Stored, Coordination: r.Mode(), KeptAfterLoss: r.KeptAfterLoss, Keys: int(l.cache)}
	if l.elastic != nil {
		r.Terms.Coordination = rule.Strict // the pool is not known yet
	}
	if r.Terms.Coordination != rule.Leased || r.Local == nil {
		return
	}
	own, rest := limits.Divide(r.Stored, r.Local, r.Nodes)
	if own == nil {
		l.at.Fail(fmt.Sprintf("local_share: %v of a leased limit leaves nothing for the store", l.share), "write a smaller share, such as 10%")
		return
	}
	r.Local, r.Terms.Own, r.Terms.Rest = own, own, rest
}

// localLimit returns the limit of one process while the store fails: local_share of rate and
// burst, divided by the number of nodes and rounded down. It returns nil for other policies, and
// if less than one request is left.
func (l *limit) localLimit() *stint.Limit {
	if l.failure != rule.Local || l.limit.Algorithm() == stint.Unlimited {
		return nil
	}
	spec := l.limit.Spec()
	spec.CarryDebt = false   // such a process has no debts
	spec.StartUsedUp = false // a process that starts has its whole share
	atOnce := l.part(l.limit.Capacity())
	switch {
	case spec.Algorithm == stint.TokenBucket && !spec.Step, spec.Algorithm == stint.LeakyBucket:
		spec.Requests, spec.Per = l.slower(spec.Requests, spec.Per)
	default:
		spec.Requests = uint32(l.part(int64(spec.Requests)))
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
func (l *limit) part(n int64) int64 {
	if l.nodes == 0 {
		return 0
	}
	part := new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(l.share)))
	return part.Div(part, big.NewInt(int64(rule.Whole)*int64(l.nodes))).Int64()
}

// slower returns one node's share of a steady rate, exact to the microsecond between two
// requests. It returns 0 requests if that is longer than any period.
func (l *limit) slower(requests uint32, per time.Duration) (uint32, time.Duration) {
	divisor := new(big.Int).Mul(big.NewInt(int64(requests)), big.NewInt(int64(l.share)))
	if divisor.Sign() == 0 || l.nodes == 0 {
		return 0, per
	}
	apart := new(big.Int).Mul(big.NewInt(per.Microseconds()), big.NewInt(int64(rule.Whole)*int64(l.nodes)))
	apart.Add(apart, divisor)
	apart.Div(apart.Sub(apart, big.NewInt(1)), divisor) // rounded up
	if !apart.IsInt64() || apart.Int64() > stint.MaxPer.Microseconds() {
		return 0, per
	}
	each := time.Duration(apart.Int64()) * time.Microsecond
	n := (stint.MinPer + each - 1) / each // the shortest period is MinPer
	return uint32(n), n * each
}
