package sim

import (
	"errors"
	"slices"
	"time"

	"stint"
)

// message is a copy of a call. The node may reuse the call itself as soon as it stops waiting.
type message struct {
	call        stint.Call
	loans       []stint.Loan
	known       stint.Instant
	undecodable []int               // of answers: takes whose states the store cannot read; nothing was decided
	seen        map[stint.Key]*view // of answers in eventual mode: the reports that the store had
}

func write(call *stint.Call, known stint.Instant) *message {
	l := &message{known: known, loans: make([]stint.Loan, len(call.Takes))}
	l.call.Takes = slices.Clone(call.Takes)
	for i := range l.call.Takes {
		if a := l.call.Takes[i].Loan(); a != nil {
			l.loans[i] = *a
		}
	}
	l.attach()
	return l
}

// attach gives the takes the loans of the message.
func (l *message) attach() {
	for i := range l.call.Takes {
		if t := &l.call.Takes[i]; t.Loan() != nil {
			how := *t.Handling
			how.Loan = &l.loans[i]
			t.Handling = &how
		}
	}
}

// clone returns a copy for the store to answer into.
func (l *message) clone() *message {
	c := &message{known: l.known, loans: slices.Clone(l.loans)}
	c.call.Takes = slices.Clone(l.call.Takes)
	c.attach()
	return c
}

var errNoAnswer = errors.New("no answer in time")

// put sends a call to the store and the answer back, if no message is lost. It calls then once,
// with the answer and the time of the decision, or an error. If the process dies meanwhile, it
// does not call then.
func (p *host) put(call *stint.Call, then func(answer *message, decided time.Duration, err error)) {
	w, is, open, sent := p.w, p.node, true, write(call, p.known)
	p.on(w.now+w.Network.Timeout, func() {
		if open && p.node == is {
			open = false
			then(nil, 0, errNoAnswer)
		}
	})
	p.travel(&p.to, nil, func() {
		if w.store.awayUntil > w.now {
			w.seen.Away++
			return
		}
		answer, decided := sent.clone(), w.now
		w.store.decide(answer, w.now)
		w.seen.Undecodable += min(1, len(w.store.undecodable(answer, w.now)))
		if is, ok := is.(*eventualNode); ok {
			answer.seen = is.storeDecided(answer, w.now)
		}
		p.travel(&p.from, nil, func() {
			p.on(w.now, func() {
				if !open || p.node != is {
					return
				}
				open = false
				for i := range answer.loans {
					p.known = max(p.known, answer.loans[i].Began)
				}
				then(answer, decided, nil)
			})
		})
	})
}

// travel sends a message from this host to another or, if other is nil, to the store. It arrives
// never, once or twice, after a random time.
func (p *host) travel(by *link, other *host, arrive func()) {
	w := p.w
	by.sent++
	number, times := by.sent, 1
	if w.r.Float64() < w.Network.Twice {
		w.seen.Repeated++
		times = 2
	}
	for range times {
		if w.r.Float64() < w.Network.Lost {
			w.seen.Lost++
			continue
		}
		w.at(w.now+w.delay(), func() {
			switch {
			case p.cutUntil > w.now || other != nil && other.cutUntil > w.now:
				w.seen.Cut++
				return
			case w.separated(p, other):
				w.seen.Separated++
				return
			}
			if number < by.arrived {
				w.seen.Overtaken++
			}
			by.arrived = max(by.arrived, number)
			arrive()
		})
	}
}

// separated reports whether a network split lies between a host and another or, if other is nil,
// the store.
func (w *world) separated(p, other *host) bool {
	for _, f := range w.splits {
		if f.At+f.For <= w.now {
			continue
		}
		part := 0
		if other != nil {
			part = other.number % f.Ways
		}
		if p.number%f.Ways != part {
			return true
		}
	}
	return false
}

// delay returns a random time for a message.
func (w *world) delay() time.Duration {
	took := w.Network.Least
	if span := w.Network.Most - w.Network.Least; span > 0 {
		took += time.Duration(w.r.Int64N(int64(span)))
	}
	return took
}
