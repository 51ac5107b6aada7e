package sim

import (
	"time"

	"stint"
	"stint/fleet/quota"
)

// quotaNode is a process of leased mode with a share of the limit, like quota.Store around
// lease.Store in the service.
type quotaNode struct {
	*leaseNode
	quota *quota.Node
}

func newQuotaNode(p *host) *quotaNode {
	return &quotaNode{newLeaseNode(p), quota.NewNode(quota.Options{})}
}

// steadyTime returns the time by the monotonic clock.
func (n *quotaNode) steadyTime() stint.Instant { return began.Add(time.Duration(n.readClocks().Mono)) }

func (n *quotaNode) decide(q *request) {
	charged := n.w.now
	req := n.quota.Begin(&q.call, n.steadyTime())
	if req == nil {
		n.w.own++
		n.w.answerLocal(q)
		return
	}
	at := make([]time.Duration, len(q.call.Takes)) // time of each decision
	rest := &request{Take: q.Take, call: req.Call, node: n}
	rest.then = func(err error, when func(take int) time.Duration) {
		asked := 0
		for i := range at {
			switch {
			case err != nil:
			case req.Charged(i):
				at[i] = charged
			default:
				at[i] = when(asked)
				asked++
			}
		}
		req.Call.Results = rest.call.Results
		if n.quota.End(req, n.steadyTime(), err) != nil {
			n.w.fail(q)
			return
		}
		n.w.answer(q, func(take int) time.Duration { return at[take] })
	}
	n.begin(rest, 0)
}
