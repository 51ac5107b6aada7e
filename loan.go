package stint

import (
	"slices"
	"time"
)

// Numbers of lending. Nodes and stores must agree on them, so they are not settings.
const (
	// LeaseTime is how long a node may spend what it was lent, from before it asked.
	LeaseTime = 2 * time.Second

	// LeaseMargin is how much later the store writes a loan off, for clocks of nodes
	// that run up to a fifth slower than the store's.
	LeaseMargin = 500 * time.Millisecond

	// LeasePart bounds the units that are lent: at most one LeasePart-th of the limit.
	LeasePart = 4

	// LeaseRate is the number of takes a second from which a node borrows units of a key. A message
	// costs the store several times as much as a take, so below that it would not save enough.
	LeaseRate = 8

	// LeaseSavings is how many takes a message must save. It costs Redis two to three times as much as
	// a take, and while something of a key is lent, takes of other nodes cost more.
	LeaseSavings = 6

	// LeaseLeast is the least number of units that a store lends to a node that wants more: fewer
	// would not save the calls that they cost.
	LeaseLeast = 8

	// LeaseShare is the least number of units that a store lends of a bucket that its nodes share
	// because it is nearly used up. Without loans each node would ask as often, and for each unit too.
	LeaseShare = 2

	// LeasePause is for how long a store is left alone, at most, that has nothing to lend or little.
	LeasePause = 250 * time.Millisecond
)

// recall is for how long nothing is lent while a take waits for more units than are at home.
const recall = 150 * time.Millisecond

// active is for how long a node counts as one of those that ask, and a loan of nothing is listed.
const active = 500 * time.Millisecond

// lifeOfLoan is from when a loan was made until it is written off.
const lifeOfLoan = LeaseTime + LeaseMargin

// Loan is a message between a node and a store about a key with lent units. The node fills in the
// first fields: what it did with its units, and how many it wants. The store fills in the others.
//
// A node numbers its asks. It reports how many of its units are unspent; all others that it was
// lent before are spent. So the store need not receive every ask, and one that arrives twice, or
// after a later one, changes nothing.
type Loan struct {
	// Node is who asks: a random number, another one after each start. 0 lends nothing
	// and only looks at the epoch, for takes of keys that may be lent to others.
	Node uint64
	// Seq is the number of the ask, from 1, rising. The same number again is the same ask
	// again, for a node that had no answer: it is granted the same units, once.
	Seq uint64
	// Epoch is the epoch in which the node's units were lent, 0 if it knows none.
	Epoch Instant
	// Kept units are unspent and stay with the node. Home units are given back with this.
	Kept, Home uint32
	// Want is how many more units the node could use.
	Want uint32
	// KeptAfterLoss means that a key starts unused after the store lost its data, instead of used
	// up.
	KeptAfterLoss bool

	// Grant is how many units this answer lends. Held is how many of the node's units the store
	// counts as lent: the node must drop any others, because they are written off.
	Grant, Held uint32
	// Lease is how long the node may spend them all, from before it first asked.
	Lease time.Duration
	// Empty is how long no units will be available, so that the node need not ask; 0: there are
	// some.
	Empty time.Duration
	// Recall asks the node to give back what it does not need at once: somebody waits for
	// more units than are at home.
	Recall bool
	// Began is the current epoch.
	Began Instant
}

// Answer answers for a key of which nothing is lent, in an epoch.
func (a *Loan) Answer(e Epoch) {
	a.Grant, a.Held, a.Lease, a.Empty, a.Recall, a.Began = 0, 0, 0, 0, false, e.Began
}

// Epoch is a stretch of time in which a store forgot nothing. What it lent in an earlier
// one it may not know.
type Epoch struct {
	// Began is when it began, by the store's clock, and its name. 0: there is none yet.
	Began Instant
	// Lost means that another epoch came before, so that a key which is unknown in this one may
	// have been used.
	Lost bool
}

// loan is what a node was lent.
type loan struct {
	node, seq uint64
	lent      int64   // possibly unspent
	grant     uint32  // by seq
	at        Instant // when it was asked for
}

// until returns when a loan is written off.
func (o *loan) until() Instant { return o.at.Add(lifeOfLoan) }

// loans are all loans of a key. Those of node 0 were made in an epoch that was lost.
type loans struct {
	epoch  Instant
	called Instant // until then nothing is lent
	list   []loan  // by at
}

// lent returns how many units of all loans are possibly unspent.
func (o *loans) lent() (n int64) {
	if o != nil {
		for i := range o.list {
			n += o.list[i].lent
		}
	}
	return n
}

// last returns when the last loan is written off, 0 if there is none.
func (o *loans) last() Instant {
	if o == nil || len(o.list) == 0 {
		return 0
	}
	return o.list[len(o.list)-1].until()
}

// ahead reports whether a loan was made by a clock that ran ahead.
func (o *loans) ahead(now Instant) bool {
	return o != nil && (o.called.Future(now) || o.last().Future(now.Add(lifeOfLoan)))
}

// present makes loans of the future ones that were made now.
func (o *loans) present(now Instant) {
	if !o.ahead(now) {
		return
	}
	if o.called.Future(now) {
		o.called = now
	}
	for i := range o.list {
		if o.list[i].at.Future(now) {
			o.list[i].at = now
		}
	}
	slices.SortStableFunc(o.list, func(a, b loan) int { return int(a.at - b.at) })
}

// active returns how many nodes have asked lately, but for one.
func (o *loans) active(now Instant, but uint64) (n int64) {
	for i := range o.list {
		if l := &o.list[i]; l.node != 0 && l.node != but && l.at.Add(active) > now {
			n++
		}
	}
	return n
}

// find returns the loan of a node, nil if it has none.
func (o *loans) find(node uint64) *loan {
	for i := range o.list {
		if o.list[i].node == node {
			return &o.list[i]
		}
	}
	return nil
}

// put puts a loan in the place that its time gives it.
func (o *loans) put(l loan) {
	o.list = slices.DeleteFunc(o.list, func(old loan) bool { return old.node == l.node })
	at := len(o.list)
	for at > 0 && o.list[at-1].at > l.at {
		at--
	}
	o.list = slices.Insert(o.list, at, l)
}

// copied returns a copy.
func (o *loans) copied() *loans {
	if o == nil {
		return nil
	}
	c := *o
	c.list = slices.Clone(o.list)
	return &c
}

// CopyLoans replaces the loans of st by a copy of those of other.
func (st *State) CopyLoans(other *State) { st.lending = other.lending.copied() }

// Size returns the heap bytes of the state.
func (st *State) Size() int {
	n := st.Log.Size()
	if st.lending != nil {
		n += 48 + 40*cap(st.lending.list)
	}
	return n
}

// Lent returns how many units are lent to nodes at now and not known to be spent, for people who
// look.
func (st *State) Lent(now Instant) (units int64) {
	if st.lending != nil {
		for _, o := range st.lending.list {
			if o.until() > now {
				units += o.lent
			}
		}
	}
	return units
}

// Lent is what one node was lent of a key and may not have spent.
type Lent struct {
	Node  uint64 // 0: units that were lent in a lost epoch
	Units int64
	At    Instant // when the node last told of it
}

// lendingOf is [StoreLimit.Lending].
func (l *Limit) lendingOf(st *State, now Instant) (epoch Instant, lent []Lent) {
	if st.lending == nil {
		return 0, nil
	}
	for i := range st.lending.list {
		o := &st.lending.list[i]
		lent = append(lent, Lent{o.node, o.lent, o.at})
	}
	return st.lending.epoch, l.stillLent(lent, now)
}

// stillLent is [StoreLimit.StillLent].
func (l *Limit) stillLent(list []Lent, now Instant) []Lent {
	return slices.DeleteFunc(list, func(o Lent) bool {
		over := o.At.Add(lifeOfLoan)
		if l.spec.Algorithm == FixedWindow && !l.spec.FromFirst {
			_, end := l.window(int64(o.At))
			over = min(over, Instant(end))
		}
		return o.Units == 0 || over <= now
	})
}
