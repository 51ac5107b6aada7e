package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"stint"
	"stint/internal/limits"
)

// began is the time at which histories begin.
var began = stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// event is a function to call at a time.
type event struct {
	at    time.Duration
	order int
	do    func()
}

// events is a heap of events, by time and then by order.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *events) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements heap.Interface.
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// world is a running simulation.
type world struct {
	*Options
	r      *rand.Rand
	queue  events
	order  int
	now    time.Duration // true time
	end    time.Duration // end of all demand, including what waits for nodes that stand still
	hosts  []*host
	store  *store
	splits []Fault // partitions of the network
	last   int     // node of the last take

	asks      []Take
	admitted  []admission
	latencies []time.Duration // response times
	terms     *stint.Terms
	handling  *stint.Handling // of every take
	failed    int
	local     int
	own       int
	calls     int
	messages  int
	stale     time.Duration // see Result.Stale
	tries     []admission   // all decided takes, at the time of the decision
	seen      Seen
	probes    map[*probe]bool // of all processes of Gossip

	used, underestimated, overestimated int64 // see Result
}

// admission is units of a key that passed, or were requested, on a node.
type admission struct {
	key  int
	at   time.Duration
	cost uint32
	node int
}

// request is a take in progress.
type request struct {
	Take
	call    stint.Call
	node    node          // process that has it; the request dies with it
	localAt time.Duration // when the process decided its part

	// then receives the answer if this is a part of another request; nil: it is not.
	then func(err error, when func(take int) time.Duration)
}

func newWorld(o *Options) *world {
	w := &world{Options: o, r: rand.New(rand.NewPCG(o.Seed, 0)), store: newStore(o), probes: map[*probe]bool{}}
	w.terms = &stint.Terms{Rule: "rule", Limit: o.Limit, Coordination: stint.Leased, KeptAfterLoss: o.KeptAfterLoss}
	switch o.Mode {
	case Leased:
		w.handling = &stint.Handling{Terms: w.terms}
	case Eventual:
		w.handling = &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}}
	case Asking:
		w.handling = &stint.Handling{Terms: &stint.Terms{Coordination: stint.Gossip, AskPeers: true}}
	}
	if o.Share != nil {
		w.terms.Own, w.terms.Rest = limits.Divide(o.Limit, o.Share, uint32(o.Nodes))
	}
	w.end = w.Length
	for _, f := range o.Faults {
		if f.Kind == Pause || f.Kind == Stall {
			w.end = max(w.end, f.At+f.For)
		}
	}
	w.Network.Timeout = cmp.Or(o.Network.Timeout, 10*time.Millisecond)
	for i := range o.Nodes {
		p := &host{w: w, number: i, rate: 1, mono: 1, wall: began.Time().UnixNano(), links: map[int]*link{}}
		if len(o.Clocks) > i {
			p.mono, p.wall = p.mono+int64(o.Clocks[i]), p.wall+int64(o.Clocks[i])
		}
		w.hosts = append(w.hosts, p)
		p.start()
	}
	o.Demand(w.r, func(t Take) {
		t.At = t.At.Truncate(time.Microsecond)
		w.asks = append(w.asks, t)
		w.at(t.At, func() { w.ask(t) })
	})
	for _, f := range o.Faults {
		w.at(f.At, func() { w.inject(f) })
		if o.Mode == Gossip || o.Mode == Asking {
			w.at(f.At+f.For, func() { w.seen.Returned += w.returned(f) })
		}
	}
	for _, at := range o.CompareAt {
		w.at(at, w.compareUse)
	}
	return w
}

// at calls do at a time, rounded down to a microsecond, as stores count.
func (w *world) at(t time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{t.Truncate(time.Microsecond), w.order, do})
}

func (w *world) run() {
	for len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
}

// inject starts a fault.
func (w *world) inject(f Fault) {
	p := w.hosts[f.Node%len(w.hosts)]
	switch f.Kind {
	case Cut:
		p.cutUntil = max(p.cutUntil, w.now+f.For)
	case Pause, Stall:
		p.sleep(f.For, f.Kind == Pause)
	case Kill:
		p.kill(f.For)
	case Set:
		w.seen.Jumped += p.holdsUnits()
		p.freezeClocks()
		p.wall += int64(f.For)
	case Drift:
		w.seen.Drifted += p.holdsUnits()
		p.freezeClocks()
		p.rate = f.Rate
	case Flush:
		if w.Mode.alone() && len(w.store.states) > 0 {
			w.seen.Emptied++
		}
		w.seen.Emptied += w.store.flush(w.now)
	case Switch:
		w.seen.Forgot += w.store.replace(w.now, f.For)
	case Gone:
		w.store.awayUntil = max(w.store.awayUntil, w.now+f.For)
	case Split:
		w.splits = append(w.splits, f)
	case Leap:
		w.store.ahead += f.For
	case Garble:
		key := keyOf(f.Node % w.Keys)
		w.store.garbledUntil[key] = max(w.store.garbledUntil[key], w.now+f.For)
	default:
		panic(fmt.Sprintf("sim: fault %d", f.Kind))
	}
}

// ask sends a take to its node.
func (w *world) ask(t Take) {
	p := w.hosts[w.route(t)]
	if p.number != w.last {
		w.seen.Moved++
		w.last = p.number
	}
	q := &request{Take: t, node: p.node}
	p.on(w.now, func() {
		if p.node == nil || q.node != p.node {
			w.failed++ // the process died
			return
		}
		q.call.Takes = append(q.call.Takes, w.take(q.Key, q.Cost))
		if q.With >= 0 && q.With != q.Key {
			q.call.Takes = append(q.call.Takes, w.take(q.With, q.Cost))
		}
		p.node.decide(q)
	})
}

// take returns a take of a key.
func (w *world) take(key int, cost uint32) stint.Take {
	return stint.Take{Key: keyOf(key), Limit: w.Limit, Cost: cost, Handling: w.handling}
}

func keyOf(n int) stint.Key { return stint.Key(fmt.Sprint("key", n)) }

// answer records the answer to a request; when returns the time of each decision.
func (w *world) answer(q *request, when func(take int) time.Duration) {
	if q.then != nil {
		q.then(nil, when)
		return
	}
	w.latencies = append(w.latencies, w.now-q.At)
	for i := range q.call.Takes {
		w.tries = append(w.tries, admission{q.key(i), w.now, q.Cost, q.Node})
	}
	for i := range q.call.Results {
		if !q.call.Results[i].Allowed {
			return
		}
	}
	for i := range q.call.Takes {
		w.admitted = append(w.admitted, admission{q.key(i), when(i), q.Cost, q.Node})
	}
}

// fail records a request without a decision.
func (w *world) fail(q *request) {
	if q.then != nil {
		q.then(errNoAnswer, nil)
		return
	}
	w.failed++
}

// key returns the key of a take of a request.
func (q *request) key(take int) int {
	if take > 0 {
		return q.With
	}
	return q.Key
}

// answerLocal records a request that a node decided alone.
func (w *world) answerLocal(q *request) {
	w.local++
	w.answer(q, func(int) time.Duration { return w.now })
}
