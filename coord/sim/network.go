package sim

import (
	"errors"
	"slices"
	"time"

	"stint"
	"stint/coord/lease"
)

// letter is a copy of what a trip asks: the trip itself is the node's again as soon as it
// waits no longer.
type letter struct {
	call  stint.Call
	loans []stint.Loan
	known stint.Instant
}

func write(trip *lease.Trip, known stint.Instant) *letter {
	l := &letter{known: known, loans: make([]stint.Loan, len(trip.Call.Takes))}
	l.call.Takes = slices.Clone(trip.Call.Takes)
	for i := range l.call.Takes {
		if t := &l.call.Takes[i]; t.Loan != nil {
			l.loans[i] = *t.Loan
			t.Loan = &l.loans[i]
		}
	}
	return l
}

// copied returns a copy that the store may answer into.
func (l *letter) copied() *letter {
	c := &letter{known: l.known, loans: slices.Clone(l.loans)}
	c.call.Takes = slices.Clone(l.call.Takes)
	for i := range c.call.Takes {
		if t := &c.call.Takes[i]; t.Loan != nil {
			t.Loan = &c.loans[i]
		}
	}
	return c
}

var errLate = errors.New("no answer in time")

// send takes a trip to the store and the answer back, if nothing gets lost. q is who asked,
// nil for a message of the node itself.
func (w *world) send(n *node, trip *lease.Trip, q *request) {
	is, open, sent := n.is, true, write(trip, n.known)
	end := func(err error, when func(int) time.Duration) {
		open = false
		if n.is != is {
			return // it died meanwhile
		}
		err = is.End(trip, n.clock(w.now), err)
		switch {
		case q == nil:
		case err != nil:
			w.failed++
		default:
			w.done(q, when)
		}
		w.wake(n)
	}
	w.on(n, w.now+w.Network.Timeout, func() {
		if open {
			end(errLate, nil)
		}
	})
	w.travel(n, func() {
		l := sent.copied()
		decided := w.now
		w.store.decide(l, w.now)
		w.travel(n, func() {
			w.on(n, w.now, func() {
				if !open || n.is != is {
					return
				}
				for i := range l.loans {
					if t := &trip.Call.Takes[i]; t.Loan != nil {
						*t.Loan = l.loans[i]
						n.known = max(n.known, t.Loan.Began)
					}
				}
				trip.Call.Results = append(trip.Call.Results[:0], l.call.Results...)
				here := map[stint.Key]bool{} // decided by the store
				for i := range l.call.Takes {
					here[l.call.Takes[i].Key] = true
				}
				end(nil, func(take int) time.Duration {
					if here[q.call.Takes[take].Key] {
						return decided
					}
					return q.begun
				})
			})
		})
	})
}

// travel has a message arrive: never, once or twice, each time after a while.
func (w *world) travel(n *node, arrive func()) {
	times := 1
	if w.r.Float64() < w.Network.Twice {
		times = 2
	}
	for range times {
		if w.r.Float64() < w.Network.Lost {
			continue
		}
		took := w.Network.Least
		if span := w.Network.Most - w.Network.Least; span > 0 {
			took += time.Duration(w.r.Int64N(int64(span)))
		}
		w.at(w.now+took, func() {
			if n.cut <= w.now {
				arrive()
			}
		})
	}
}
