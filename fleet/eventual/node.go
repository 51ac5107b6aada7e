package eventual

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stint"
)

const (
	// DefaultInterval is the default of Options.Interval.
	DefaultInterval = 100 * time.Millisecond

	// DefaultBudget is the default of Options.Budget.
	DefaultBudget = 256 << 20

	// away is how many intervals a node decides alone without an answer of the store.
	away = 3
)

// Options are the optional parts of a Store. The zero value is ready to use.
type Options struct {
	// Interval is the time between two reports to the store; 0 means DefaultInterval. A longer
	// one calls the store less often and admits more above the limit.
	Interval time.Duration

	// Budget is the memory of all keys in bytes; 0 means DefaultBudget. When it is used up, the
	// least recently used keys are evicted. If none can be, the store decides new ones.
	Budget int64

	// Part returns the partition of the store that has the key of a take. Each gets its own
	// messages. Nil: the store has one.
	Part func(*stint.Take) int

	// Clock is the clock of this process, which must not run backwards; nil: that of the machine.
	Clock func() stint.Instant

	// Seed is the seed of everything random, including the number of the node, so that a
	// simulation can be repeated. 0 means a random seed, which is what a server wants.
	Seed uint64
}

// Node holds the keys of one process. It is safe for concurrent use and never blocks. Its user
// calls the store for it, see Begin and Tick. The zero Node is not usable; see NewNode.
type Node struct {
	name     string // prefix of its receipts
	interval stint.Instant
	budget   int64
	part     func(*stint.Take) int
	keys     table
	queue    atomic.Pointer[entry]         // entries to report or to read with the next tick
	receipts atomic.Uint64                 // number of the last one
	paused   atomic.Pointer[chan struct{}] // closed at the end of the pause; nil: decisions are not paused
	groups   sync.Pool                     // *group
	bytes    atomic.Int64

	undecodableKeys atomic.Int64 // keys whose states the store cannot read

	servers     sync.Map // partition to *server
	pools       sync.Map // *stint.Terms to *pool
	poolsMu     sync.Mutex
	poolsByRule map[[2]string]*pool // by domain and rule; guarded by poolsMu
	commonPool  *pool               // of all rules that set no number of keys

	count counters

	mu          sync.Mutex // guards the fields below
	unanswered  []*Request // reports without an answer
	later       []*entry   // entries whose units of a later window are still unsent
	parts       []*Request // readable parts of reports with undecodable states
	undecodable []*Request // reports about undecodable states only
}

// counters are the figures behind Stats.
type counters struct{ reads, forwarded, messages, repeated, units, peeks, evicted, refused atomic.Uint64 }

// NewNode returns a node without keys.
func NewNode(o Options) *Node {
	n := &Node{
		interval: stint.Instant(cmp.Or(o.Interval, DefaultInterval) / time.Microsecond), part: o.Part,
		budget: cmp.Or(o.Budget, DefaultBudget), poolsByRule: map[[2]string]*pool{}, commonPool: new(pool),
	}
	n.keys.init()
	n.groups.New = func() any { return newGroup() }
	name := o.Seed
	if o.Seed != 0 {
		n.keys.seed = [4]uint64{o.Seed*2 + 3, o.Seed*4 + 5, o.Seed*8 + 9, o.Seed*16 + 17}
	} else {
		name = rand.Uint64()
	}
	n.name = fmt.Sprintf("eventual/%016x/", name)
	return n
}

// Every returns the time between two calls of Tick.
func (n *Node) Every() time.Duration { return time.Duration(n.interval) * time.Microsecond }

// serverOf returns the partition of the store that has the key of a take.
func (n *Node) serverOf(t *stint.Take) *server {
	part := 0
	if n.part != nil {
		part = n.part(t)
	}
	if known, ok := n.servers.Load(part); ok {
		return known.(*server)
	}
	made, _ := n.servers.LoadOrStore(part, &server{place: stint.Key(strings.Clone(string(t.Place())))})
	return made.(*server)
}

// away reports whether the node may no longer decide a key alone: the store did not answer, or
// could not read the state, for too long.
func (n *Node) away(e *entry, now stint.Instant) bool {
	return n.overdue(e.server.failing.Load(), now) || n.overdue(e.undecodable.Load(), now)
}

// overdue reports whether since is too long ago for the node to decide alone; 0 never is.
func (n *Node) overdue(since int64, now stint.Instant) bool {
	return since != 0 && now-stint.Instant(since) > away*n.interval
}

// decidable reports whether a node can decide a take alone.
func decidable(call *stint.Call, t *stint.Take) bool {
	switch {
	case t.Coordination() != stint.Eventual || call.At != 0 || t.Borrows > 0 || t.Limit == nil || !t.Limit.ForStores().Mergeable():
		return false
	case t.Op == stint.Refund:
		return t.Undo == nil || !t.Undo.Degraded
	}
	return t.Op.Asks() || t.Op == stint.Force
}

// Begin decides a call from the counts of the node, if it can; req and wait are then nil.
// Otherwise it returns a request to the store. If the key is being read already, a patient caller
// gets wait instead. It waits until wait is closed, and calls Begin again.
func (n *Node) Begin(call *stint.Call, now stint.Instant, patient bool) (req *Request, wait <-chan struct{}) {
	call.SizeResults()
	if len(call.Takes) != 1 {
		return n.beginSeveral(call, now, patient)
	}
	t := &call.Takes[0]
	if !decidable(call, t) {
		return n.forward(call, now), nil
	}
	fp := n.keys.fingerprint(t)
	for {
		e := n.keys.find(fp, t)
		if e == nil {
			return n.startRead(call, fp, now, patient)
		}
		if n.away(e, now) {
			return n.forward(call, now), nil
		}
		done, reading := n.decide(e, t, now, &call.Results[0])
		switch {
		case done:
			return nil, nil
		case reading != nil && patient:
			return nil, reading
		case reading != nil:
			return n.forward(call, now), nil
		}
	}
}

// decide decides a take from its entry. It is not done if the entry is dead or being read, or
// decisions are paused.
func (n *Node) decide(e *entry, t *stint.Take, now stint.Instant, d *stint.Decision) (done bool, reading <-chan struct{}) {
	e.mu.Lock()
	if reading, dead := e.reading, e.dead; dead || reading != nil || n.paused.Load() != nil {
		e.mu.Unlock()
		switch held := n.paused.Load(); {
		case dead:
			return false, nil
		case reading == nil && held != nil:
			return false, *held
		}
		return false, reading
	}
	e.decideLocked(t, now, d)
	n.enqueue(e)
	e.mu.Unlock()
	return true, nil
}

// enqueue adds an entry to those of the next tick.
func (n *Node) enqueue(e *entry) {
	if e.queued.Load() || e.queued.Swap(true) {
		return
	}
	for {
		e.next = n.queue.Load()
		if n.queue.CompareAndSwap(e.next, e) {
			return
		}
	}
}

// startRead handles a key without an entry: it returns a request in which the store decides the
// take itself. The answer contains the state of the key.
func (n *Node) startRead(call *stint.Call, fp uint64, now stint.Instant, patient bool) (*Request, <-chan struct{}) {
	t := &call.Takes[0]
	if !t.Op.Asks() || !patient {
		return n.forward(call, now), nil
	}
	e, mine := n.addEntry(fp, t, now)
	switch {
	case e == nil:
		return n.forward(call, now), nil
	case !mine:
		return n.Begin(call, now, patient)
	}
	n.count.reads.Add(1)
	return &Request{Call: call, items: []item{{entry: e, limit: t.Limit}}, begun: now, kind: ask}, nil
}

// addEntry adds an entry for a take's key. If mine is set, the caller must read it from the
// store. It returns nil if there is no room.
func (n *Node) addEntry(fp uint64, t *stint.Take, now stint.Instant) (e *entry, mine bool) {
	e = newEntry(fp, t, n.serverOf(t), n.pool(t))
	if !n.admit(e, now) {
		n.count.refused.Add(1)
		return nil, false
	}
	if there := n.keys.add(e, t); there != nil {
		e.mu.Lock()
		e.dead, e.reading = true, nil
		e.mu.Unlock()
		n.remove(e)
		return there, false
	}
	return e, true
}

// forward returns a request in which the store decides the whole call.
func (n *Node) forward(call *stint.Call, now stint.Instant) *Request {
	n.count.forwarded.Add(1)
	return &Request{Call: call, begun: now, kind: ask}
}
