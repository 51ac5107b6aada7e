package sim

import (
	"slices"
	"time"

	"stint"
	"stint/fleet/lease"
)

// leased is a process of leased mode: what lease.Store is in the service.
type leased struct {
	*place
	node    *lease.Node
	waiting queue
}

// waiting is a request that waits for an answer to another one.
type waiting struct {
	q    *request
	done <-chan struct{}
	had  int // how often it waited before
}

func newLeased(p *place) *leased {
	seed := p.w.Seed<<20 + uint64(p.number)<<10 + uint64(p.born) + 1
	return &leased{place: p, node: lease.NewNode(lease.Options{Seed: seed})}
}

func (n *leased) held() int64 { return n.node.Stats().Held }

// reads returns what the process sees when it reads its clocks.
func (n *leased) reads() lease.Moment {
	if n.w.Reads != nil {
		return n.w.Reads(n.moment())
	}
	return n.moment()
}

func (n *leased) tick() time.Duration {
	for _, trip := range n.node.Tick(n.reads()) {
		n.w.messages++
		n.send(trip, nil)
	}
	return n.node.Every()
}

func (n *leased) decide(q *request) { n.begin(q, 0) }

// patience is how often a request waits for the answer to another one.
const patience = 3

func (n *leased) begin(q *request, waits int) {
	q.begun = n.w.now
	trip, wait := n.node.Begin(&q.call, n.reads(), waits < patience)
	switch {
	case trip != nil:
		n.w.calls++
		n.send(trip, q)
	case wait != nil:
		n.waiting = append(n.waiting, waiting{q, wait, waits + 1})
	default:
		n.w.here(q)
	}
}

// send puts a trip to the store. q is who asked, nil for a message of the node itself.
func (n *leased) send(trip *lease.Trip, q *request) {
	asked := slices.Clone(trip.Call.Takes)
	n.put(&trip.Call, func(answer *letter, decided time.Duration, err error) {
		if err == nil {
			for i := range answer.loans {
				if t := &trip.Call.Takes[i]; t.Loan() != nil {
					*t.Loan() = answer.loans[i]
				}
			}
			trip.Call.Results = append(trip.Call.Results[:0], answer.call.Results...)
		}
		err = n.node.End(trip, n.reads(), err)
		switch {
		case q == nil:
		case err != nil:
			n.w.fail(q)
		default:
			n.w.answer(q, func(take int) time.Duration {
				if slices.ContainsFunc(asked, func(t stint.Take) bool { return t.Key == q.call.Takes[take].Key }) {
					return decided
				}
				return q.begun
			})
		}
		n.waiting.wake(n.place, n.begin)
	})
}

// queue are requests that wait.
type queue []waiting

// wake has those begun once more whose answer is there, unless their process died.
func (l *queue) wake(p *place, begin func(q *request, had int)) {
	list, is := *l, p.is
	*l = nil
	for _, one := range list {
		select {
		case <-one.done:
			p.on(p.w.now, func() {
				if p.is != is {
					p.w.fail(one.q)
					return
				}
				begin(one.q, one.had)
			})
		default:
			*l = append(*l, one)
		}
	}
}
