// Package sim simulates the nodes of a coordination mode and a store in virtual time, with random
// faults, and measures how much passes above the limit.
//
// It does not model the modes. It runs the nodes of the packages beside it, and the store's
// ledger is Report, Take and Lend of the root package. It simulates what lies between them: late,
// lost, repeated and reordered messages; clocks; nodes that stand still, die and start again;
// network partitions; a store that is away, is emptied, cannot read a key, or is replaced by a
// replica that lags behind. One seed determines all of it.
//
// Each mode implements the interface node. The world (world.go) calls a process for each take,
// each tick and each message, and the process calls the world with its messages and answers. The
// excess (measure.go) is computed from the answers alone, by the true time. So it cannot share an
// error with a mode.
package sim

import (
	"math/rand/v2"
	"time"

	"stint"
	"stint/fleet/lease"
)

// Options are the parameters of a simulation.
type Options struct {
	// Seed is the seed of everything random.
	Seed uint64

	// Mode is the coordination mode. The zero Mode is Leased.
	Mode Mode

	// Interval is the time between two reports of nodes that decide alone; 0 means 100 ms.
	Interval time.Duration

	// Nodes is the number of nodes.
	Nodes int

	// Limit is the limit of all keys. Keys is the number of keys, at least 1.
	Limit *stint.Limit
	Keys  int

	// Share is the share of the limit that each node of Leased has, see package fleet/quota; nil:
	// none.
	Share *stint.Limit

	// KeptAfterLoss is after_loss: kept, for Leased: a key that the store forgot starts unused.
	KeptAfterLoss bool

	// AlwaysBorrow makes nodes of Leased borrow units also where that saves no calls.
	AlwaysBorrow bool

	// Length is how long clients send requests.
	Length time.Duration

	// Demand calls ask for each take of the history, in any order.
	Demand func(r *rand.Rand, ask func(Take))

	// Network is how messages travel. The zero Network has no faults.
	Network Network

	// Faults are the faults and their times.
	Faults []Fault

	// Clocks is how far the clock of each node is ahead; nil: no clock is.
	Clocks []time.Duration

	// CompareAt lists times at which the use that nodes of Gossip know is compared with the true
	// use.
	CompareAt []time.Duration

	// Ledger is how the store decides; nil means Exact. A test may pass a broken one.
	Ledger Ledger

	// start returns a process of another mode, for tests; nil: Mode decides.
	start func(p *host) node

	// Reads maps the clocks of a Leased node to what its process reads; nil: no change. A test
	// may simulate a process that ignores one of its clocks.
	Reads func(lease.Moment) lease.Moment
}

// Mode is a mode of coordination.
type Mode int

// The modes.
const (
	Leased   Mode = iota
	Strict        // the store decides every take
	Sticky        // a client always reaches the same node, which counts alone
	Gossip        // nodes decide alone and report to each other
	Eventual      // nodes decide alone and report to the store
	Asking        // nodes query all others, and deny if one does not answer
)

var modeNames = [...]string{"leased", "strict", "sticky", "gossip", "eventual", "gossip: ask"}

// String returns the name of the mode.
func (m Mode) String() string { return modeNames[m] }

// alone reports whether nodes decide alone and report later.
func (m Mode) alone() bool { return m == Gossip || m == Eventual || m == Asking }

// Take is a take that a client sends to a node.
type Take struct {
	At   time.Duration
	Node int
	Key  int
	Cost uint32

	// With is a second key in the same call, all or none; below 0: none.
	With int
}

// Network is how messages travel between nodes and the store.
type Network struct {
	Least, Most time.Duration // one way; random in between, so that messages overtake each other
	Lost        float64       // fraction of the messages that are lost
	Twice       float64       // fraction of the messages that arrive twice
	Timeout     time.Duration // how long a node waits for an answer; 0: 10 ms
}

// Fault is a fault at a time.
type Fault struct {
	At   time.Duration
	Kind Kind
	Node int           // index of the node, or of the key
	For  time.Duration // duration, or how far a clock jumps
	Ways int           // number of network parts, at least 2
	Rate float64       // of a clock: 1.01 runs 1 % fast
}

// Kind is the kind of a fault.
type Kind int

// The kinds of faults.
const (
	Cut    Kind = iota // no message passes to or from the node
	Pause              // the node stands still, and its monotonic clock too
	Stall              // the node stands still; its clocks continue
	Kill               // the node dies; another replaces it after For
	Set                // the node's wall clock jumps
	Drift              // the node's clocks run at another rate
	Flush              // the store loses all its data
	Switch             // a replica takes over that is For behind
	Gone               // the store does not answer
	Split              // the network splits into Ways parts; the store is in the first
	Leap               // the store's clock jumps
	Garble             // the store cannot read the state of a key
)

var kindNames = [...]string{"cut", "pause", "stall", "kill", "set", "drift", "flush", "switch", "gone", "split", "leap", "garble"}

// String returns the name of the kind.
func (k Kind) String() string { return kindNames[k] }

// Ledger decides a take of a key that the store may lend, see [stint.Loan].
type Ledger func(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, loan *stint.Loan, epoch stint.Epoch) stint.Decision

// Exact is the ledger of the real stores.
func Exact(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, loan *stint.Loan, epoch stint.Epoch) stint.Decision {
	if loan == nil {
		return limit.Take(st, now, cost)
	}
	limit.ForStores().Report(st, now, loan, epoch)
	d := limit.Take(st, now, cost)
	limit.ForStores().Lend(st, now, loan, cost, &d)
	return d
}

// Result is the result of a simulation.
type Result struct {
	Asked    int   // takes
	Admitted int64 // units of all keys
	Central  int64 // units that one bucket for all nodes would have admitted
	Over     int64 // units above the limit in the worst window of any key: E

	Local    int // takes that a node decided alone
	Own      int // takes of Local that were charged to the node's share
	Calls    int // calls that the store decided
	Messages int // messages that nodes sent without a call
	Failed   int // takes without a decision

	// UnseenLosses counts how often an emptied store was first used by a node that had never used
	// it. The store then cannot notice the loss, and starts with unused limits like a new one.
	UnseenLosses int

	Held int64 // units still lent and unspent at the end

	// Stale is S: the longest time for which a node that admitted a take did not know a take of
	// another node. Surge is the largest number of units requested of a key within such a time.
	// Both are 0 in modes that ask the store or all nodes.
	Stale time.Duration
	Surge int64

	// Unreported is how many units living processes never reported, and Twice how many they
	// reported twice, in modes in which nodes decide alone.
	Unreported, Twice int64

	// Used is the sum of the used units of all keys at all times of CompareAt. Underestimated is
	// how many less the lowest node counted, and Overestimated how many more the highest.
	Used, Underestimated, Overestimated int64

	// P50 and P99 are quantiles of the response time.
	P50, P99 time.Duration

	Seen Seen
}

// Seen counts the effects of faults in a history. A fault without an effect proves nothing.
type Seen struct {
	Lost, Repeated, Overtaken, Cut int // messages

	Slept       int // nodes with units stood still for longer than a lease
	Jumped      int // clocks of nodes with units were set
	Drifted     int // clocks of nodes with units changed their rate
	Killed      int // nodes with units died
	Emptied     int // the store was emptied while it had lent or counted units
	Forgot      int // replicas without the latest writes took over
	Away        int // messages without an answer because the store was away
	Separated   int // messages between separated parts of the network
	Moved       int // takes on another node than the take before
	Undecodable int // calls and messages with a state that the store could not read

	Idled    int // network parts without a request for ten seconds, before or during a partition
	Returned int // faults after which a node knew keys that others had removed
}

// Utilisation is Admitted divided by Central.
func (r *Result) Utilisation() float64 { return float64(r.Admitted) / float64(max(1, r.Central)) }

// StoreShare is the number of calls and messages divided by the number of takes.
func (r *Result) StoreShare() float64 { return float64(r.Calls+r.Messages) / float64(max(1, r.Asked)) }

// Run runs a simulation.
func Run(o Options) Result {
	w := newWorld(&o)
	w.run()
	return w.result()
}
