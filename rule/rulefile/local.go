package rulefile

import (
	"fmt"
	"math/big"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/rule"
)

// agree works out the terms of a rule that has a name. A leased rule with a share divides its
// limit.
func (l *limit) agree(r *rule.Rule) {
	r.Terms = &stint.Terms{Domain: r.Domain, Rule: r.Name, Limit: r.Stored, Coordination: r.Mode(), KeptAfterLoss: r.KeptAfterLoss, Keys: int(l.cache)}
	if l.elastic != nil {
		r.Terms.Coordination = rule.Strict // what it leans on comes later
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

// localLimit returns what may pass in one process while the store is away: the share
// of the rate and of what may be taken at once, divided by the nodes and rounded down.
// It is nil where the policy is another, and where less than one request is left.
func (l *limit) localLimit() *stint.Limit {
	if l.failure != rule.Local || l.limit.Algorithm() == stint.Unlimited {
		return nil
	}
	spec := l.limit.Spec()
	spec.CarryDebt = false   // nobody has a debt there
	spec.StartUsedUp = false // the share is all that one who starts anew gets
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
		return nil // so slow that it would take half a century to fill
	}
	return local
}

// part returns the share of n that one node has, rounded down.
func (l *limit) part(n int64) int64 {
	if l.nodes == 0 {
		return 0
	}
	part := new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(l.share)))
	return part.Div(part, big.NewInt(int64(rule.Whole)*int64(l.nodes))).Int64()
}

// slower returns the share of a steady rate, exact to the microsecond that one
// request is apart from the next; 0 requests where that is longer than any period.
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
	n := (stint.MinPer + each - 1) / each // periods have a least length
	return uint32(n), n * each
}
