// Package sim puts nodes of package coord/lease and a store through histories of bad
// weather in virtual time, and measures how much passed too much.
//
// Nothing of lease is modelled: nodes are lease.Node, the store's ledger is Report and Lend
// of the root package. What is simulated is what lies between and around them: messages
// that are late, lost, repeated and overtake each other; clocks; nodes that stand still,
// die and start again; a store that is emptied, or replaced by a replica that lags behind.
// All of it follows from one seed.
package sim

import (
	"math/rand/v2"
	"time"

	"stint"
)

// Options say what to simulate.
type Options struct {
	// Seed fixes everything random.
	Seed uint64

	// Nodes is how many there are.
	Nodes int

	// Limit is the limit of all keys, of which there are Keys, at least 1.
	Limit *stint.Limit
	Keys  int

	// Length is how long clients ask.
	Length time.Duration

	// Demand calls ask for each take of the history, in any order.
	Demand func(r *rand.Rand, ask func(Take))

	// Network is how messages travel, without faults where it is zero.
	Network Network

	// Faults happen at their times.
	Faults []Fault

	// Ledger is the store's half of the protocol; nil is the one that stores use. A test
	// puts a broken one here.
	Ledger Ledger
}

// Take is what a client asks of a node.
type Take struct {
	At   time.Duration
	Node int
	Key  int
	Cost uint32

	// With asks for another key in the same call, all or none; below 0: for none.
	With int
}

// Network is how messages travel between nodes and the store.
type Network struct {
	Least, Most time.Duration // one way; in between by chance, so that messages overtake
	Lost        float64       // part of the messages that are
	Twice       float64       // part of them that arrive twice
	Timeout     time.Duration // how long a node waits for an answer; 0: 10ms
}

// Fault is something that happens.
type Fault struct {
	At   time.Duration
	Kind Kind
	Node int
	For  time.Duration // how long it lasts, or how far a clock jumps
	Rate float64       // of a clock: 1.01 runs 1 % fast
}

// Kind is what happens.
type Kind int

// The kinds of faults.
const (
	Cut    Kind = iota // no message passes between the node and the store
	Pause              // the node stands still, and so does the clock that nobody sets
	Stall              // the node stands still, its clocks go on
	Kill               // the node dies; another takes its place at once
	Set                // the node's wall clock jumps
	Drift              // the node's clocks run at another rate
	Flush              // the store forgets everything
	Switch             // a replica takes over that knows what the store knew For ago
	Leap               // the store's clock jumps
)

var kindNames = [...]string{"cut", "pause", "stall", "kill", "set", "drift", "flush", "switch", "leap"}

// String names the kind.
func (k Kind) String() string { return kindNames[k] }

// Ledger is how the store decides a take of a key of which it may lend, see stint.Loan.
type Ledger func(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, loan *stint.Loan, epoch stint.Epoch) stint.Decision

// Exact is the ledger that stores use.
func Exact(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, loan *stint.Loan, epoch stint.Epoch) stint.Decision {
	limit.Report(st, now, loan, epoch)
	d := limit.Take(st, now, cost)
	limit.Lend(st, now, loan, cost, &d)
	return d
}

// Result is what came of it.
type Result struct {
	Asked    int   // takes
	Admitted int64 // units, of all keys
	Central  int64 // units that one bucket for all would have admitted
	Over     int64 // units above the limit in the worst window of any key: E

	Local    int // takes that were decided by a node itself
	Calls    int // what the store was asked to decide
	Messages int // what nodes told it of their own accord
	Failed   int // takes that were not decided

	// Strangers is how often the first to ask a store that was emptied was a node that
	// had never asked it before, so that it began full, as a new one does.
	Strangers int

	Held int64 // units that were lent and unspent in the end
}

// Utilisation is what was admitted, as a part of what one bucket would have.
func (r *Result) Utilisation() float64 { return float64(r.Admitted) / float64(max(1, r.Central)) }

// Left is the part of the takes that cost the store a call or a message.
func (r *Result) Left() float64 { return float64(r.Calls+r.Messages) / float64(max(1, r.Asked)) }

// Run simulates.
func Run(o Options) Result {
	w := newWorld(&o)
	w.run()
	return w.result()
}
