package transaction

import (
	"slices"

	"stint"
)

// Charged is what one decision charged to a key.
type Charged struct {
	On   int // the caller's number of the part, server or store that has the key
	Take *stint.Take
	Cost uint64
	By   *stint.Decision
}

// Charges are what a call has charged so far, for callers that may have to give it back. Each of
// them sends refunds in its own way: a Run does steps of its participants, package router calls one
// store after the other, and package servers calls all servers at once. The zero Charges are ready
// to use.
type Charges struct {
	List    []Charged // what can be given back, the oldest first
	Lasting bool      // something was done that cannot be undone
}

// Add adds what a store charged for a call that it decided, except for the takes that it could not
// decide, by the CorruptState of its error. The Charges keep pointers into the call.
func (c *Charges) Add(on int, call *stint.Call, corrupt *stint.CorruptState) {
	passed := !Denied(call)
	for _, apart := range [...]bool{false, true} { // the order in which stores decide
		last := -1 // last source of the take
		for i := range call.Takes {
			t := &call.Takes[i]
			if apart && i > last {
				last, passed = i+int(t.Borrows), call.Results[i].Allowed
			}
			if t.Independent == apart && Decided(call, corrupt, i) {
				c.add(Charged{on, t, uint64(t.Charged(&call.Results[i])), &call.Results[i]}, passed)
			}
		}
	}
}

// add adds the charge of a take; passed reports whether its group passed.
func (c *Charges) add(o Charged, passed bool) {
	switch {
	case o.Take.Limit.Algorithm() == stint.Unlimited:
	case !o.Take.Op.Asks():
		c.Lasting = c.Lasting || passed
	case o.Cost == 0:
	case !passed:
		c.Lasting = c.Lasting || o.Take.Limit.ForStores().Overdraws()
	case !o.By.Over:
		c.List = append(c.List, o)
	default: // a borrower was charged to its sources, a source in part
		c.Lasting = c.Lasting || o.Take.Borrows == 0
	}
}

// Refunds removes the charges that which selects from the list, nil for all, and returns what to
// give back: the newest charge first, because a place in a leaky_bucket is only given back if nobody
// queued behind it. It adds up the charges of one decision, as they were charged together.
func (c *Charges) Refunds(which func(Charged) bool) []Charged {
	back := make([]Charged, 0, len(c.List))
	for _, o := range slices.Backward(c.List) {
		if which != nil && !which(o) {
			continue
		}
		same := func(b Charged) bool { return b.On == o.On && *b.By == *o.By && IDOf(b.Take) == IDOf(o.Take) }
		if n := slices.IndexFunc(back, same); n >= 0 {
			back[n].Cost += o.Cost
		} else {
			back = append(back, o)
		}
	}
	c.List = slices.DeleteFunc(c.List, func(o Charged) bool { return which == nil || which(o) })
	return back
}

// Refund returns an Independent take that gives back cost units of those that t was charged by the
// decision by.
func Refund(t stint.Take, cost uint64, by *stint.Decision) stint.Take {
	t.Op, t.Cost, t.Undo, t.Independent, t.Borrows = stint.Refund, uint32(min(cost, stint.MaxCost)), by, true, 0
	return t
}
