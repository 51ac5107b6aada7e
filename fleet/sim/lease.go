package sim

import (
	"slices"
	"time"

	"stint"
	"stint/fleet/lease"
)

// leaseNode is a process of leased mode, like lease.Store in the service.
type leaseNode struct {
	*host
	node    *lease.Node
	waiting queue
}

// waiting is a request that waits for the answer to another one.
type waiting struct {
	q    *request
	done <-chan struct{}
	had  int // how often it waited before
}

func newLeaseNode(p *host) *leaseNode {
	seed := p.w.Seed<<20 + uint64(p.number)<<10 + uint64(p.restarts) + 1
	return &leaseNode{host: p, node: lease.NewNode(lease.Options{Seed: seed, Always: p.w.AlwaysBorrow})}
}

func (n *leaseNode) held() int64 { return n.node.Stats().Held }

// readClocks returns what the process reads from its clocks.
func (n *leaseNode) readClocks() lease.Moment {
	if n.w.Reads != nil {
		return n.w.Reads(n.moment())
	}
	return n.moment()
}

func (n *leaseNode) tick() time.Duration {
	for _, req := range n.node.Tick(n.readClocks()) {
		n.w.messages++
		n.send(req, nil)
	}
	return n.node.Every()
}

func (n *leaseNode) decide(q *request) { n.begin(q, 0) }

// patience is how often a request waits for the answer to another one.
const patience = 3

func (n *leaseNode) begin(q *request, waits int) {
	q.localAt = n.w.now
	req, wait := n.node.Begin(&q.call, n.readClocks(), waits < patience)
	switch {
	case req != nil:
		n.w.calls++
		n.send(req, q)
	case wait != nil:
		n.waiting = append(n.waiting, waiting{q, wait, waits + 1})
	default:
		n.w.answerLocal(q)
	}
}

// send sends a request to the store. q is the client's request, nil for a message of the node
// itself.
func (n *leaseNode) send(req *lease.Request, q *request) {
	asked := slices.Clone(req.Call.Takes)
	n.put(&req.Call, func(answer *message, decided time.Duration, err error) {
		if err == nil {
			for i := range answer.loans {
				if t := &req.Call.Takes[i]; t.Loan() != nil {
					*t.Loan() = answer.loans[i]
				}
			}
			req.Call.Results = append(req.Call.Results[:0], answer.call.Results...)
		}
		err = n.node.End(req, n.readClocks(), err)
		switch {
		case q == nil:
		case err != nil:
			n.w.fail(q)
		default:
			n.w.answer(q, func(take int) time.Duration {
				if slices.ContainsFunc(asked, func(t stint.Take) bool { return t.Key == q.call.Takes[take].Key }) {
					return decided
				}
				return q.localAt
			})
		}
		n.waiting.wake(n.host, n.begin)
	})
}

// queue holds waiting requests.
type queue []waiting

// wake begins the requests again whose wait is over, unless their process died.
func (l *queue) wake(p *host, begin func(q *request, had int)) {
	list, is := *l, p.node
	*l = nil
	for _, one := range list {
		select {
		case <-one.done:
			p.on(p.w.now, func() {
				if p.node != is {
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
