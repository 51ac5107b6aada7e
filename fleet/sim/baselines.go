package sim

import (
	"hash/fnv"
	"time"

	"stint"
)

// strictNode is a process that asks the store for each take.
type strictNode struct{ *host }

func (n *strictNode) held() int64         { return 0 }
func (n *strictNode) tick() time.Duration { return 0 }

func (n *strictNode) decide(q *request) {
	n.w.calls++
	n.put(&q.call, func(answer *message, decided time.Duration, err error) {
		if err != nil {
			n.w.failed++
			return
		}
		q.call.Results = answer.call.Results
		n.w.answer(q, func(int) time.Duration { return decided })
	})
}

// stickyNode is a process that counts alone.
type stickyNode struct {
	*host
	states map[stint.Key]*stint.State
}

func (n *stickyNode) held() int64         { return int64(len(n.states)) }
func (n *stickyNode) tick() time.Duration { return 0 }

func (n *stickyNode) decide(q *request) {
	one := store{ledger: plain, states: n.states}
	l := write(&q.call, 0)
	one.decide(l, n.w.now)
	q.call.Results = l.call.Results
	n.w.answerLocal(q)
}

// plain is a ledger that never lends.
func plain(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, _ *stint.Loan, _ stint.Epoch) stint.Decision {
	return limit.Take(st, now, cost)
}

// route returns the node that gets a take. In sticky mode this is the living node that is first
// for the key, as in rendezvous hashing.
func (w *world) route(t Take) int {
	if w.Mode != Sticky {
		return t.Node
	}
	first, highest := t.Node, uint64(0)
	for i, p := range w.hosts {
		if p.node == nil {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte{byte(i), byte(i >> 8), byte(t.Key), byte(t.Key >> 8), byte(t.Key >> 16)})
		if sum := h.Sum64() * 0x9e3779b97f4a7c15; sum >= highest {
			first, highest = i, sum
		}
	}
	return first
}
