package sim

import (
	"maps"
	"slices"
	"time"

	"stint"
	"stint/fleet/eventual"
)

// eventualNode is a process of eventual mode, like eventual.Store in the service around a guard
// that denies while the store is away.
type eventualNode struct {
	*host
	node    *eventual.Node
	waiting queue
	open    int // messages of the current round without an answer

	records map[stint.Key]*record // takes that this process decided
	views   map[stint.Key]*view
}

// record is the takes of a key that a process decided, and how many of their units it reported.
type record struct {
	at       []time.Duration // time of each take
	sum      []int64         // units up to and including each take
	reported int64
}

// add adds a take.
func (r *record) add(at time.Duration, units int64) {
	if n := len(r.sum); n > 0 {
		units += r.sum[n-1]
	}
	r.at, r.sum = append(r.at, at), append(r.sum, units)
}

// since returns the time of the first unit after the first known ones, now if there is none.
func (r *record) since(known int64, now time.Duration) time.Duration {
	if i, _ := slices.BinarySearch(r.sum, known+1); i < len(r.at) {
		return r.at[i]
	}
	return now
}

// view is what the store had of a key when it answered: for each process, how many units it had
// reported.
type view struct {
	records  []*record
	reported []int64
}

func (v *view) add(r *record) {
	v.records, v.reported = append(v.records, r), append(v.reported, r.reported)
}

func newEventualNode(p *host) *eventualNode {
	n := &eventualNode{host: p, records: map[stint.Key]*record{}, views: map[stint.Key]*view{}}
	n.node = eventual.NewNode(eventual.Options{Seed: p.w.Seed<<20 + uint64(p.number)<<10 + uint64(p.restarts) + 1, Interval: p.w.Interval})
	return n
}

func (n *eventualNode) held() int64 { return n.node.Stats().Keys }

// steadyTime returns the time by the monotonic clock.
func (n *eventualNode) steadyTime() stint.Instant {
	return began + stint.Instant(n.moment().Mono/int64(time.Microsecond))
}

func (n *eventualNode) decide(q *request) { n.begin(q, 0) }

func (n *eventualNode) begin(q *request, waits int) {
	req, wait := n.node.Begin(&q.call, n.steadyTime(), waits <= patience)
	switch {
	case req != nil:
		n.w.calls++
		n.send(req, func(next eventual.Next, err error, decided time.Duration) {
			n.end(q, waits, next, err, decided)
		})
	case wait != nil:
		n.waiting = append(n.waiting, waiting{q, wait, waits + 1})
	default:
		n.w.answerLocal(q)
		n.recordTakes(q)
	}
}

// end continues a call after a request to the store.
func (n *eventualNode) end(q *request, waits int, next eventual.Next, err error, decided time.Duration) {
	switch {
	case next == eventual.Again:
		n.begin(q, waits+1)
	case next == eventual.AskStore:
		n.begin(q, patience+1)
	case err != nil:
		n.w.fail(q)
	default:
		n.w.answer(q, func(int) time.Duration { return decided })
	}
}

// recordTakes records the takes of a request that passed here, and for how long takes of other
// nodes were unknown.
func (n *eventualNode) recordTakes(q *request) {
	for i := range q.call.Results {
		if !q.call.Results[i].Allowed || q.Cost == 0 {
			return
		}
	}
	for i := range q.call.Takes {
		key := q.call.Takes[i].Key
		own := n.record(key)
		if v := n.views[key]; v != nil {
			n.w.stale = max(n.w.stale, n.w.now-n.w.firstUnknown(key, v, own))
		}
		own.add(n.w.now, int64(q.Cost))
	}
}

func (n *eventualNode) record(key stint.Key) *record {
	r := n.records[key]
	if r == nil {
		r = new(record)
		n.records[key] = r
	}
	return r
}

// firstUnknown returns the time of the first unit of a key that is not in a view. It ignores the
// units in own.
func (w *world) firstUnknown(key stint.Key, v *view, own *record) time.Duration {
	first := w.now
	for _, r := range w.storeView(key).records {
		if r == own {
			continue
		}
		known := int64(0)
		if i := slices.Index(v.records, r); i >= 0 {
			known = v.reported[i]
		}
		first = min(first, r.since(known, w.now))
	}
	return first
}

// storeDecided records the reports in a message and returns what the store has, at the time of
// its decision.
func (n *eventualNode) storeDecided(l *message, now time.Duration) (seen map[stint.Key]*view) {
	seen = map[stint.Key]*view{}
	if l.undecodable != nil {
		return seen
	}
	passed := true
	for i := range l.call.Results {
		passed = passed && l.call.Results[i].Allowed
	}
	for i := range l.call.Takes {
		t := &l.call.Takes[i]
		switch {
		case !passed:
		case t.Op == stint.Force:
			n.record(t.Key).reported += int64(t.Cost)
		case t.Op == stint.Ask && t.Cost > 0:
			r := n.w.store.record(t.Key)
			r.add(now, int64(t.Cost))
			r.reported += int64(t.Cost)
			n.w.stale = max(n.w.stale, now-n.w.firstUnknown(t.Key, n.w.storeView(t.Key), nil))
		}
	}
	for i := range l.call.Takes {
		key := l.call.Takes[i].Key
		seen[key] = n.w.storeView(key)
	}
	return seen
}

// storeView returns what the store has of a key.
func (w *world) storeView(key stint.Key) *view {
	v := new(view)
	v.add(w.store.record(key))
	for _, p := range w.hosts {
		if is, ok := p.node.(*eventualNode); ok && is.records[key] != nil {
			v.add(is.records[key])
		}
	}
	return v
}

// send sends a request to the store.
func (n *eventualNode) send(req *eventual.Request, then func(next eventual.Next, err error, decided time.Duration)) {
	n.put(req.Call, func(answer *message, decided time.Duration, err error) {
		var failed error
		if err == nil && answer.undecodable != nil {
			failed = &stint.CorruptState{Takes: answer.undecodable}
		} else if err != nil {
			req.Call.Results = make([]stint.Decision, len(req.Call.Takes))
			for i := range req.Call.Results {
				req.Call.Results[i].Degraded = true
			}
		} else {
			req.Call.Results = append(req.Call.Results[:0], answer.call.Results...)
			maps.Copy(n.views, answer.seen)
		}
		next, err := n.node.End(req, n.steadyTime(), failed)
		then(next, err, decided)
		n.waiting.wake(n.host, n.begin)
	})
}

func (n *eventualNode) tick() time.Duration {
	if n.open == 0 {
		n.exchange(n.node.Tick(n.steadyTime()), false)
	}
	return n.node.Every()
}

// exchange sends the messages of a round and, when all are answered, the later ones.
func (n *eventualNode) exchange(reqs []*eventual.Request, rest bool) {
	if len(reqs) == 0 && !rest {
		reqs, rest = n.node.Later(n.steadyTime()), true
	}
	n.open = len(reqs)
	for _, req := range reqs {
		n.w.messages++
		n.send(req, func(eventual.Next, error, time.Duration) {
			if n.open--; n.open == 0 && !rest {
				n.exchange(n.node.Later(n.steadyTime()), true)
			}
		})
	}
}

// addUnreported adds the units that were never reported, or twice, at the end.
func (n *eventualNode) addUnreported(res *Result) {
	for _, r := range n.records {
		if len(r.sum) == 0 {
			continue
		}
		untold := r.sum[len(r.sum)-1] - r.reported
		res.Unreported += max(0, untold)
		res.Twice += max(0, -untold)
	}
}
