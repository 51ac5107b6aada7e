package sim

import (
	"time"

	"stint"
	"stint/fleet/quota"
)

// divided is a process of leased mode that has a part of the limit to itself: what
// quota.Store around lease.Store is in the service.
type divided struct {
	*leased
	part *quota.Node
}

func newDivided(p *place) *divided { return &divided{newLeased(p), quota.NewNode(quota.Options{})} }

// instant returns what the clock shows that nobody sets.
func (n *divided) instant() stint.Instant { return began.Add(time.Duration(n.reads().Mono)) }

func (n *divided) decide(q *request) {
	charged := n.w.now
	trip := n.part.Begin(&q.call, n.instant())
	if trip == nil {
		n.w.own++
		n.w.here(q)
		return
	}
	at := make([]time.Duration, len(q.call.Takes)) // when each was decided
	rest := &request{Take: q.Take, call: trip.Call, on: n}
	rest.then = func(err error, when func(take int) time.Duration) {
		asked := 0
		for i := range at {
			switch {
			case err != nil:
			case trip.Own(i):
				at[i] = charged
			default:
				at[i] = when(asked)
				asked++
			}
		}
		trip.Call.Results = rest.call.Results
		if n.part.End(trip, n.instant(), err) != nil {
			n.w.fail(q)
			return
		}
		n.w.answer(q, func(take int) time.Duration { return at[take] })
	}
	n.begin(rest, 0)
}
