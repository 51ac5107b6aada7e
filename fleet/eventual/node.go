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
	// DefaultInterval is how long a node keeps to itself what it took where Options are
	// silent.
	DefaultInterval = 100 * time.Millisecond

	// DefaultBudget is how many bytes the keys of a node may take where Options are silent.
	DefaultBudget = 256 << 20

	// away is how many intervals without an exchange a node goes on by itself.
	away = 3
)

// Options are the optional parts of a Store. The zero value is ready to use.
type Options struct {
	// Interval is how long a node keeps to itself what it took; 0 means DefaultInterval.
	// A longer one asks the store less often, and lets more pass too much.
	Interval time.Duration

	// Budget is how many bytes all keys may take; 0 means DefaultBudget. When it is used
	// up those go that were not asked for longest, or new ones are decided by the store.
	Budget int64

	// Part says in which part of the store the key of a take lies, if it has several: each
	// is told apart. Nil: there is one.
	Part func(*stint.Take) int

	// Clock is this process's clock, which must not run backwards; nil: the machine's.
	Clock func() stint.Instant

	// Seed fixes everything random, the node's number among it, so that a simulation can
	// be repeated. 0, which is what a server wants, is another one each time.
	Seed uint64
}

// Node is what one process knows of keys. It is safe for concurrent use, and never blocks:
// who uses it asks the store for it, see Begin and Tick. The zero Node is not usable; see
// NewNode.
type Node struct {
	name     string // of its receipts
	interval stint.Instant
	budget   int64
	part     func(*stint.Take) int
	keys     table
	queue    atomic.Pointer[entry]         // that the store is to be told or asked of
	receipts atomic.Uint64                 // that were made
	paused   atomic.Pointer[chan struct{}] // closed when takes may be decided again; nil: they may
	groups   sync.Pool                     // *group
	bytes    atomic.Int64

	undecodableKeys atomic.Int64 // keys of which the store could not read the state when it was last told

	servers     sync.Map // int: *home
	pools       sync.Map // *stint.Terms: *pool
	poolsMu     sync.Mutex
	poolsByRule map[[2]string]*pool // by domain and rule; guarded by naming
	commonPool  *pool               // of all rules that say nothing

	count counters

	mu          sync.Mutex // guards what follows
	unanswered  []*Request // that had no answer
	later       []*entry   // of which the store has been told the first part
	parts       []*Request // of messages in which some states cannot be read: what else was in them
	undecodable []*Request // about keys whose states cannot be read
}

// counters are what Stats shows.
type counters struct{ reads, forwarded, messages, repeated, units, peeks, evicted, refused atomic.Uint64 }

// NewNode returns a node that knows nothing.
func NewNode(o Options) *Node {
	n := &Node{
		interval: stint.Instant(cmp.Or(o.Interval, DefaultInterval) / time.Microsecond), part: o.Part,
		budget: cmp.Or(o.Budget, DefaultBudget), poolsByRule: map[[2]string]*pool{}, commonPool: new(pool),
	}
	n.keys.init()
	n.groups.New = func() any { return new(group) }
	name := o.Seed
	if o.Seed != 0 {
		n.keys.seed = [4]uint64{o.Seed*2 + 3, o.Seed*4 + 5, o.Seed*8 + 9, o.Seed*16 + 17}
	} else {
		name = rand.Uint64()
	}
	n.name = fmt.Sprintf("eventual/%016x/", name)
	return n
}

// Every is how often Tick is to be called.
func (n *Node) Every() time.Duration { return time.Duration(n.interval) * time.Microsecond }

// serverOf returns the part of the store in which the key of a take lies.
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

// away says whether nothing came through for so long that the node may not go on by itself
// with a key, or the store could not read its state for so long.
func (n *Node) away(e *entry, now stint.Instant) bool {
	return n.overdue(e.server.failing.Load(), now) || n.overdue(e.undecodable.Load(), now)
}

// overdue says whether something has been so for longer than a node goes on by itself; 0: it is not.
func (n *Node) overdue(since int64, now stint.Instant) bool {
	return since != 0 && now-stint.Instant(since) > away*n.interval
}

// decidable says whether a node can answer a take by itself.
func decidable(call *stint.Call, t *stint.Take) bool {
	switch {
	case t.Coordination() != stint.Eventual || call.At != 0 || t.Borrows > 0 || t.Limit == nil || !t.Limit.ForStores().Mergeable():
		return false
	case t.Op == stint.Refund:
		return t.Undo == nil || !t.Undo.Degraded
	}
	return t.Op == stint.Ask || t.Op == stint.Force
}

// Begin answers a call from what the node knows, where it can: then request and wait are nil.
// Else it returns what to ask the store, or, to those who are patient, something to wait
// for, as the store is being asked already. Then the call is begun once more.
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

// decide answers a take by what is known of its key. It is not done where the entry is dead,
// or the store is being asked.
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
	e.decideLocked(t, uint64(t.Cost), now, d)
	n.enqueue(e)
	e.mu.Unlock()
	return true, nil
}

// enqueue has the store told and asked of an entry with the next tick.
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

// startRead asks the store about a key that is not known here: the take itself, whose answer says
// all there is to know.
func (n *Node) startRead(call *stint.Call, fp uint64, now stint.Instant, patient bool) (*Request, <-chan struct{}) {
	t := &call.Takes[0]
	if t.Op != stint.Ask || !patient {
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

// addEntry makes an entry for a take's key, which the store is to be asked of by whoever it is
// mine to; nil where it has no place.
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

// forward has a call decided by the store.
func (n *Node) forward(call *stint.Call, now stint.Instant) *Request {
	n.count.forwarded.Add(1)
	return &Request{Call: call, begun: now, kind: ask}
}
