// Package sim puts the nodes of a mode of coordination, and a store, through histories of
// bad weather in virtual time, and measures how much passed too much.
//
// No mode is modelled: nodes are those of the packages beside this one, the store's ledger
// is Report, Take and Lend of the root package. What is simulated is what lies between and
// around them: messages that are late, lost, repeated and overtake each other; clocks;
// nodes that stand still, die and start again; a network that falls apart; a store that is
// away, is emptied, cannot read a key, or is replaced by a replica that lags behind. All of it follows from one
// seed.
//
// What a mode is stands behind the interface node: the world (world.go) calls a process
// when somebody asks it, when its time has come and when a message arrives, and is called
// with what it sends and answers. How much passed too much (measure.go) is worked out from
// the answers alone, by the true time, so it cannot share a mistake with any mode.
package sim

import (
	"math/rand/v2"
	"time"

	"stint"
	"stint/fleet/lease"
)

// Options say what to simulate.
type Options struct {
	// Seed fixes everything random.
	Seed uint64

	// Mode is how the nodes agree. The zero Mode is Leased.
	Mode Mode

	// Interval is how often nodes tell what they took where they decide alone; 0: 100 ms.
	Interval time.Duration

	// Nodes is how many there are.
	Nodes int

	// Limit is the limit of all keys, of which there are Keys, at least 1.
	Limit *stint.Limit
	Keys  int

	// Share is what each node of Leased has of the limit to itself, see package
	// fleet/quota; nil: nothing.
	Share *stint.Limit

	// Length is how long clients ask.
	Length time.Duration

	// Demand calls ask for each take of the history, in any order.
	Demand func(r *rand.Rand, ask func(Take))

	// Network is how messages travel, without faults where it is zero.
	Network Network

	// Faults happen at their times.
	Faults []Fault

	// Clocks are how far the clock of each node is ahead; nil: none is.
	Clocks []time.Duration

	// CompareAt are times at which what the nodes of Gossip take for used is compared with what was.
	CompareAt []time.Duration

	// Ledger is the store's half of the protocol; nil is the one that stores use. A test
	// puts a broken one here.
	Ledger Ledger

	// start makes processes of a mode that is none of these, for tests; nil: there is none.
	start func(p *host) node

	// Reads is what a node of Leased sees when it reads its clocks; nil: what they show. A
	// test puts a process here that does not look at one of them.
	Reads func(lease.Moment) lease.Moment
}

// Mode is a mode of coordination.
type Mode int

// The modes.
const (
	Leased   Mode = iota
	Strict        // every take asks the store
	Sticky        // a client is always sent to the same node, which counts alone
	Gossip        // nodes decide alone and tell each other
	Eventual      // nodes decide alone and tell the store
	Asking        // nodes ask each other, and deny where one does not answer
)

var modeNames = [...]string{"leased", "strict", "sticky", "gossip", "eventual", "gossip: ask"}

// String names the mode.
func (m Mode) String() string { return modeNames[m] }

// alone says whether nodes decide alone and agree later.
func (m Mode) alone() bool { return m == Gossip || m == Eventual || m == Asking }

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
	Node int           // or the key
	For  time.Duration // how long it lasts, or how far a clock jumps
	Ways int           // into how many parts the network falls, at least 2
	Rate float64       // of a clock: 1.01 runs 1 % fast
}

// Kind is what happens.
type Kind int

// The kinds of faults.
const (
	Cut    Kind = iota // no message passes between the node and the store
	Pause              // the node stands still, and so does the clock that nobody sets
	Stall              // the node stands still, its clocks go on
	Kill               // the node dies; another takes its place For later
	Set                // the node's wall clock jumps
	Drift              // the node's clocks run at another rate
	Flush              // the store forgets everything
	Switch             // a replica takes over that knows what the store knew For ago
	Gone               // the store stands still, and answers nobody
	Split              // the network falls into Ways parts; the store is in the first
	Leap               // the store's clock jumps
	Garble             // the store cannot read the state of a key, as somebody moved it away
)

var kindNames = [...]string{"cut", "pause", "stall", "kill", "set", "drift", "flush", "switch", "gone", "split", "leap", "garble"}

// String names the kind.
func (k Kind) String() string { return kindNames[k] }

// Ledger is how the store decides a take of a key of which it may lend, see stint.Loan.
type Ledger func(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, loan *stint.Loan, epoch stint.Epoch) stint.Decision

// Exact is the ledger that stores use.
func Exact(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, loan *stint.Loan, epoch stint.Epoch) stint.Decision {
	if loan == nil {
		return limit.Take(st, now, cost)
	}
	limit.ForStores().Report(st, now, loan, epoch)
	d := limit.Take(st, now, cost)
	limit.ForStores().Lend(st, now, loan, cost, &d)
	return d
}

// Result is what came of it.
type Result struct {
	Asked    int   // takes
	Admitted int64 // units, of all keys
	Central  int64 // units that one bucket for all would have admitted
	Over     int64 // units above the limit in the worst window of any key: E, see over

	Local    int // takes that were decided by a node itself
	Own      int // of these, those that were charged to its own part
	Calls    int // what the store was asked to decide
	Messages int // what nodes told it of their own accord
	Failed   int // takes that were not decided

	// UnseenLosses is how often the first to ask a store that was emptied was a node that
	// had never asked it before, so that it began full, as a new one does.
	UnseenLosses int

	Held int64 // units that were lent and unspent in the end

	// Stale is the longest for which a node that let something pass had not heard what
	// another one took: S, with all that befell messages. Surge is the most that was asked
	// for of a key in such a time. Of modes that ask it is 0.
	Stale time.Duration
	Surge int64

	// Unreported is how many units processes that live never told anybody, and Twice how many
	// they told twice, of modes in which nodes decide alone.
	Unreported, Twice int64

	// Used is how many units were used of all keys when somebody looked, Forgotten how many less
	// the one of the nodes believed who forgot most, and Imagined how many more another one.
	Used, Underestimated, Overestimated int64

	// P50 and P99 are how long an answer took.
	P50, P99 time.Duration

	Seen Seen
}

// Seen counts what really came to pass in a history: a fault that nobody felt proves
// nothing.
type Seen struct {
	Lost, Repeated, Overtaken, Cut int // messages

	Slept       int // nodes that held units stood still for longer than a lease
	Jumped      int // clocks of nodes that held units were set
	Drifted     int // clocks of nodes that held units ran at another rate from then on
	Killed      int // nodes that held units died
	Emptied     int // the store was emptied while units were lent, or had been counted
	Forgot      int // replicas took over that did not know something
	Away        int // messages that the store did not answer, as it stood still
	Separated   int // messages that did not get from one part of the network to another
	Moved       int // takes that came to another node than the one before
	Undecodable int // calls and messages of which the store could not read some state

	Idled    int // parts of a network that nobody asked for ten seconds, before they were apart or while they were
	Returned int // nodes that came back with what others had forgotten
}

// Utilisation is what was admitted, as a part of what one bucket would have.
func (r *Result) Utilisation() float64 { return float64(r.Admitted) / float64(max(1, r.Central)) }

// StoreShare is the part of the takes that cost the store a call or a message.
func (r *Result) StoreShare() float64 { return float64(r.Calls+r.Messages) / float64(max(1, r.Asked)) }

// Run simulates.
func Run(o Options) Result {
	w := newWorld(&o)
	w.run()
	return w.result()
}
