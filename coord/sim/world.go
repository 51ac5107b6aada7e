package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"stint"
	"stint/coord/lease"
)

// began is when histories begin.
var began = stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// event is something to be done at a time.
type event struct {
	at    time.Duration
	order int
	do    func()
}

// events is a heap of them, by time and then in order.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push and Pop are part of heap.Interface.
func (q *events) Push(x any) { *q = append(*q, x.(event)) }

// Pop is part of heap.Interface.
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// world is a simulation under way.
type world struct {
	*Options
	r     *rand.Rand
	queue events
	order int
	now   time.Duration // the true time
	nodes []*node
	store *shelf

	asks     []Take
	admitted []passage
	failed   int
	local    int
	calls    int
	messages int
}

// passage is what passed.
type passage struct {
	key  int
	at   time.Duration
	cost uint32
}

// node is a process.
type node struct {
	number  int
	born    int // how many were in its place before
	is      *lease.Node
	known   stint.Instant // the epoch that its client of the store remembers
	resumes time.Duration // until then it stands still
	cut     time.Duration // until then it is cut off

	// Its clocks: what they showed at the true time since, and their rate.
	since      time.Duration
	mono, wall int64
	rate       float64

	waiting []*request
}

// request is a take on its way.
type request struct {
	Take
	call  stint.Call
	wait  <-chan struct{}
	waits int
	on    *lease.Node   // who has it: dies with that
	begun time.Duration // when that decided its own part
}

func newWorld(o *Options) *world {
	w := &world{Options: o, r: rand.New(rand.NewPCG(o.Seed, 0)), store: newShelf(o)}
	w.Network.Timeout = cmp.Or(o.Network.Timeout, 10*time.Millisecond)
	for i := range o.Nodes {
		n := &node{number: i, rate: 1, mono: 1, wall: began.Time().UnixNano()}
		w.start(n)
		w.nodes = append(w.nodes, n)
	}
	o.Demand(w.r, func(t Take) {
		w.asks = append(w.asks, t)
		w.at(t.At, func() { w.ask(&request{Take: t}) })
	})
	for _, f := range o.Faults {
		w.at(f.At, func() { w.happen(f) })
	}
	return w
}

// start begins a process.
func (w *world) start(n *node) {
	n.is = lease.NewNode(lease.Options{Seed: w.Seed<<20 + uint64(n.number)<<10 + uint64(n.born) + 1})
	n.known, n.waiting = 0, nil
	is := n.is
	var tick func()
	tick = func() {
		if n.is != is || w.now > w.Length+time.Second {
			return
		}
		for _, trip := range is.Tick(n.clock(w.now)) {
			w.messages++
			w.send(n, trip, nil)
		}
		w.on(n, w.now+is.Every(), tick)
	}
	w.on(n, w.now, tick)
}

// at does something at a time. All happens at whole microseconds, as stores count.
func (w *world) at(t time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{t.Truncate(time.Microsecond), w.order, do})
}

// on does something on a node, once that does not stand still.
func (w *world) on(n *node, t time.Duration, do func()) {
	w.at(t, func() {
		if n.resumes > w.now {
			w.on(n, n.resumes, do)
			return
		}
		do()
	})
}

func (w *world) run() {
	for len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
}

// clock returns what a node's clocks show.
func (n *node) clock(now time.Duration) lease.Moment {
	ran := int64(float64(now-n.since) * n.rate)
	return lease.Moment{Mono: n.mono + ran, Wall: n.wall + ran}
}

// wind sets a node's clocks to what they show, before something about them changes.
func (n *node) wind(now time.Duration) {
	m := n.clock(now)
	n.mono, n.wall, n.since = m.Mono, m.Wall, now
}

// happen lets a fault happen.
func (w *world) happen(f Fault) {
	n := w.nodes[f.Node%len(w.nodes)]
	switch f.Kind {
	case Cut:
		n.cut = max(n.cut, w.now+f.For)
	case Pause, Stall:
		n.wind(w.now)
		n.resumes = max(n.resumes, w.now+f.For)
		if f.Kind == Pause { // its wall clock has gone on when it wakes up
			n.mono -= int64(f.For)
		}
	case Kill:
		n.born++
		w.start(n)
	case Set:
		n.wind(w.now)
		n.wall += int64(f.For)
	case Drift:
		n.wind(w.now)
		n.rate = f.Rate
	case Flush:
		w.store.flush()
	case Switch:
		w.store.replace(w.now, f.For)
	case Leap:
		w.store.ahead += f.For
	default:
		panic(fmt.Sprintf("sim: fault %d", f.Kind))
	}
}

// ask puts a request to its node.
func (w *world) ask(q *request) {
	n := w.nodes[q.Node]
	w.on(n, w.now, func() {
		if q.on != nil && q.on != n.is {
			w.failed++ // it died
			return
		}
		q.on = n.is
		if q.call.Takes == nil {
			q.call.Takes = append(q.call.Takes, w.take(q.Key, q.Cost))
			if q.With >= 0 && q.With != q.Key {
				q.call.Takes = append(q.call.Takes, w.take(q.With, q.Cost))
			}
		}
		q.begun = w.now
		trip, wait := n.is.Begin(&q.call, n.clock(w.now), q.waits < 3)
		switch {
		case trip != nil:
			w.calls++
			w.send(n, trip, q)
		case wait != nil:
			q.wait = wait
			q.waits++
			n.waiting = append(n.waiting, q)
		default:
			w.local++
			w.done(q, func(int) time.Duration { return w.now })
		}
	})
}

func (w *world) take(key int, cost uint32) stint.Take {
	return stint.Take{Key: keyOf(key), Limit: w.Limit, Cost: cost, Coordination: stint.Leased}
}

func keyOf(n int) stint.Key { return stint.Key(fmt.Sprint("key", n)) }

// done notes what passed, each take when it was decided.
func (w *world) done(q *request, when func(take int) time.Duration) {
	for i := range q.call.Results {
		if !q.call.Results[i].Allowed {
			return
		}
	}
	for i := range q.call.Takes {
		key := q.Key
		if i > 0 {
			key = q.With
		}
		w.admitted = append(w.admitted, passage{key, when(i), q.Cost})
	}
}

// wake asks once more for those who waited for an answer that is there.
func (w *world) wake(n *node) {
	waiting := n.waiting
	n.waiting = nil
	for _, q := range waiting {
		select {
		case <-q.wait:
			w.ask(q)
		default:
			n.waiting = append(n.waiting, q)
		}
	}
}
