package sim

import (
	"maps"
	"slices"
	"time"

	"stint"
	"stint/fleet/eventual"
)

// deciding is a process of eventual mode: what eventual.Store is in the service, around a
// guard that denies while the store is away.
type deciding struct {
	*place
	node    *eventual.Node
	waiting queue
	open    int // messages of the present round that have no answer

	took  map[stint.Key]*record // what was decided here
	views map[stint.Key]*view
}

// record is what a process decided of a key, and how much of that the store was told.
type record struct {
	at   []time.Duration // of each that took something
	sum  []int64         // units up to there
	told int64
}

// add adds what was taken.
func (r *record) add(at time.Duration, units int64) {
	if n := len(r.sum); n > 0 {
		units += r.sum[n-1]
	}
	r.at, r.sum = append(r.at, at), append(r.sum, units)
}

// since returns when the first unit after so many was taken, now if there is none.
func (r *record) since(known int64, now time.Duration) time.Duration {
	if i, _ := slices.BinarySearch(r.sum, known+1); i < len(r.at) {
		return r.at[i]
	}
	return now
}

// view is what the store had been told of a key when it answered: by the process with each
// record, how much.
type view struct {
	of   []*record
	told []int64
}

func (v *view) add(r *record) {
	v.of, v.told = append(v.of, r), append(v.told, r.told)
}

func newDeciding(p *place) *deciding {
	n := &deciding{place: p, took: map[stint.Key]*record{}, views: map[stint.Key]*view{}}
	n.node = eventual.NewNode(eventual.Options{Seed: p.w.Seed<<20 + uint64(p.number)<<10 + uint64(p.born) + 1, Interval: p.w.Interval})
	return n
}

func (n *deciding) held() int64 { return n.node.Stats().Keys }

// clock returns what the process takes for the time: it goes by the clock that nobody sets.
func (n *deciding) clock() stint.Instant {
	return began + stint.Instant(n.moment().Mono/int64(time.Microsecond))
}

func (n *deciding) decide(q *request) { n.begin(q, 0) }

func (n *deciding) begin(q *request, waits int) {
	trip, wait := n.node.Begin(&q.call, n.clock(), waits <= patience)
	switch {
	case trip != nil:
		n.w.calls++
		n.send(trip, func(next eventual.Next, err error, decided time.Duration) {
			n.end(q, waits, next, err, decided)
		})
	case wait != nil:
		n.waiting = append(n.waiting, waiting{q, wait, waits + 1})
	default:
		n.w.here(q)
		n.note(q)
	}
}

// end goes on with a request after a trip.
func (n *deciding) end(q *request, waits int, next eventual.Next, err error, decided time.Duration) {
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

// note notes what a request took that passed here, and how long nobody told of others.
func (n *deciding) note(q *request) {
	for i := range q.call.Results {
		if !q.call.Results[i].Allowed || q.Cost == 0 {
			return
		}
	}
	for i := range q.call.Takes {
		key := q.call.Takes[i].Key
		own := n.record(key)
		if v := n.views[key]; v != nil {
			n.w.stale = max(n.w.stale, n.w.now-n.w.unheard(key, v, own))
		}
		own.add(n.w.now, int64(q.Cost))
	}
}

func (n *deciding) record(key stint.Key) *record {
	r := n.took[key]
	if r == nil {
		r = new(record)
		n.took[key] = r
	}
	return r
}

// unheard returns when the first unit of a key was taken of which somebody had not heard
// who has a view, and took some himself.
func (w *world) unheard(key stint.Key, v *view, own *record) time.Duration {
	first := w.now
	for _, r := range w.told(key).of {
		if r == own {
			continue
		}
		known := int64(0)
		if i := slices.Index(v.of, r); i >= 0 {
			known = v.told[i]
		}
		first = min(first, r.since(known, w.now))
	}
	return first
}

// decided sees what the store was told, and what it said, at the time when it did.
func (n *deciding) decided(l *letter, now time.Duration) (seen map[stint.Key]*view) {
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
			n.record(t.Key).told += int64(t.Cost)
		case t.Op == stint.Ask && t.Cost > 0:
			r := n.w.store.record(t.Key)
			r.add(now, int64(t.Cost))
			r.told += int64(t.Cost)
			n.w.stale = max(n.w.stale, now-n.w.unheard(t.Key, n.w.told(t.Key), nil))
		}
	}
	for i := range l.call.Takes {
		key := l.call.Takes[i].Key
		seen[key] = n.w.told(key)
	}
	return seen
}

// told returns what the store has been told of a key.
func (w *world) told(key stint.Key) *view {
	v := new(view)
	v.add(w.store.record(key))
	for _, p := range w.places {
		if is, ok := p.is.(*deciding); ok && is.took[key] != nil {
			v.add(is.took[key])
		}
	}
	return v
}

// send puts a trip to the store.
func (n *deciding) send(trip *eventual.Trip, then func(next eventual.Next, err error, decided time.Duration)) {
	n.put(trip.Call, func(answer *letter, decided time.Duration, err error) {
		var failed error
		if err == nil && answer.undecodable != nil {
			failed = &stint.CorruptState{Takes: answer.undecodable}
		} else if err != nil {
			trip.Call.Results = make([]stint.Decision, len(trip.Call.Takes))
			for i := range trip.Call.Results {
				trip.Call.Results[i].Degraded = true
			}
		} else {
			trip.Call.Results = append(trip.Call.Results[:0], answer.call.Results...)
			maps.Copy(n.views, answer.seen)
		}
		next, err := n.node.End(trip, n.clock(), failed)
		then(next, err, decided)
		n.waiting.wake(n.place, n.begin)
	})
}

func (n *deciding) tick() time.Duration {
	if n.open == 0 {
		n.exchange(n.node.Tick(n.clock()), false)
	}
	return n.node.Every()
}

// exchange sends the messages of a round, and when all have answers the rest of it.
func (n *deciding) exchange(trips []*eventual.Trip, rest bool) {
	if len(trips) == 0 && !rest {
		trips, rest = n.node.Rest(n.clock()), true
	}
	n.open = len(trips)
	for _, trip := range trips {
		n.w.messages++
		n.send(trip, func(eventual.Next, error, time.Duration) {
			if n.open--; n.open == 0 && !rest {
				n.exchange(n.node.Rest(n.clock()), true)
			}
		})
	}
}

// settled adds what the store was not told, or twice, in the end.
func (n *deciding) settled(res *Result) {
	for _, r := range n.took {
		if len(r.sum) == 0 {
			continue
		}
		untold := r.sum[len(r.sum)-1] - r.told
		res.Untold += max(0, untold)
		res.Twice += max(0, -untold)
	}
}
