package sim

import (
	"errors"
	"slices"
	"time"

	"stint"
)

// message is a copy of a call: the call itself is the node's again as soon as that waits no
// longer.
type message struct {
	call        stint.Call
	loans       []stint.Loan
	known       stint.Instant
	undecodable []int               // of answers: takes whose states the store cannot read, so that nothing was decided
	seen        map[stint.Key]*view // of answers to eventual mode: what the store had been told
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

// attach gives the takes the letter's own loans.
func (l *message) attach() {
	for i := range l.call.Takes {
		if t := &l.call.Takes[i]; t.Loan() != nil {
			how := *t.Handling
			how.Loan = &l.loans[i]
			t.Handling = &how
		}
	}
}

// clone returns a copy that the store may answer into.
func (l *message) clone() *message {
	c := &message{known: l.known, loans: slices.Clone(l.loans)}
	c.call.Takes = slices.Clone(l.call.Takes)
	c.attach()
	return c
}

var errNoAnswer = errors.New("no answer in time")

// put takes a call to the store and the answer back, if nothing gets lost, and calls then
// once: with the answer and when it was decided, or an error. If the process dies
// meanwhile it does not.
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

// travel has a message between a place and another one, or the store where that is nil,
// arrive: never, once or twice, each time after a while.
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

// separated says whether the network fell apart between a place and another one or, where
// that is nil, the store.
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

// delay returns how long a message takes.
func (w *world) delay() time.Duration {
	took := w.Network.Least
	if span := w.Network.Most - w.Network.Least; span > 0 {
		took += time.Duration(w.r.Int64N(int64(span)))
	}
	return took
}
