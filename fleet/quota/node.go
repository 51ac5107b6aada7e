package quota

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/system"
	"stint/internal/transaction"
)

// DefaultKeys is how many keys a node knows at most where Options are silent.
const DefaultKeys = 1 << 20

// Node is what one process has for itself. It is safe for concurrent use and never blocks:
// who uses it asks the store for what it does not decide, see Begin. The zero Node is not
// usable; see NewNode.
//
// Its times are those of a clock that nobody sets: an Instant that only ever grows. When it
// began does not matter.
type Node struct {
	keys   int
	seed   system.Seed
	shards [shards]shard
	trips  sync.Pool

	changing sync.Mutex // of who changes rules
	rules    atomic.Pointer[ruled]
}

// ruled are the rules that a node knows. Those of takes are found by their terms; who comes
// with older ones finds what is in force instead.
type ruled struct {
	terms map[*stint.Terms]*rule
	named map[name]*rule
}

type name struct{ domain, rule string }

// rule is a rule in force.
type rule struct {
	terms *stint.Terms
	own   *stint.Limit  // nil: it is not divided
	store *stint.Limit  // what the store is asked
	empty stint.Instant // when parts of which nothing is known were empty

	passed *atomic.Uint64 // takes that were charged to its parts
}

// NewNode returns a node that has nothing yet.
func NewNode(o Options) *Node {
	n := &Node{keys: cmp.Or(o.Keys, DefaultKeys), seed: system.NewSeed()}
	n.rules.Store(&ruled{map[*stint.Terms]*rule{}, map[name]*rule{}})
	for i := range n.shards {
		n.shards[i].parts = map[stint.Key]*part{}
	}
	n.trips.New = func() any { return new(Trip) }
	return n
}

// Trip is what a node asks the store: whoever gets one puts Call to it, and then hands both
// to End.
type Trip struct {
	// Call is to be decided by the store.
	Call stint.Call

	whole    *stint.Call      // what the node was asked; nil: nobody asked
	of       []int            // which take of the whole each take of Call is
	handling []stint.Handling // of takes of Call that are asked otherwise than they came
	rules    []*rule          // of each take of Call; nil: it is not divided
	own      []int            // the takes of the whole that were charged here
}

// Own says whether take number i of what the node was asked was charged to its own part.
func (trip *Trip) Own(i int) bool { return slices.Contains(trip.own, i) }

// shard returns where a key stands.
func (n *Node) shard(key stint.Key) *shard { return &n.shards[n.seed.Sum(0, string(key))%shards] }

// rule returns what is in force for a take's rule, nil for one that was never divided.
func (n *Node) rule(t *stint.Take, now stint.Instant) *rule {
	if t.Terms() == nil {
		return nil
	}
	known := n.rules.Load()
	if r := known.terms[t.Terms()]; r != nil || t.Terms().Own == nil {
		return r
	}
	if r := known.named[name{t.Terms().Domain, t.Terms().Rule}]; r != nil {
		return r
	}
	return n.meet(t.Terms(), now)
}

// meet comes to know a rule. A take that is under way for longer than its rule is in force
// comes here too, and finds what is in force now.
func (n *Node) meet(terms *stint.Terms, now stint.Instant) *rule {
	n.changing.Lock()
	defer n.changing.Unlock()
	old, id := n.rules.Load(), name{terms.Domain, terms.Rule}
	if r := old.named[id]; r != nil {
		return r
	}
	r := newRule(terms, now)
	next := ruled{maps.Clone(old.terms), maps.Clone(old.named)}
	next.terms[terms], next.named[id] = r, r
	n.rules.Store(&next)
	return r
}

func newRule(terms *stint.Terms, empty stint.Instant) *rule {
	return &rule{terms: terms, own: terms.Own, store: terms.Stored(), empty: empty, passed: new(atomic.Uint64)}
}

// Begin answers a call from what the node has for itself, where it can: then it returns nil.
// Else it returns what to ask the store.
func (n *Node) Begin(call *stint.Call, now stint.Instant) *Trip {
	call.SizeResults()
	if len(call.Takes) == 1 {
		t := &call.Takes[0]
		if r := n.rule(t, now); r.decides(call, 0) && n.spend(r, t, now, &call.Results[0]) {
			return nil
		}
	}
	trip := n.trips.Get().(*Trip)
	trip.whole, trip.Call.At = call, call.At
	for i := range call.Takes {
		t := &call.Takes[i]
		r := n.rule(t, now)
		switch {
		case len(call.Takes) > 1 && r.decides(call, i) && n.spend(r, t, now, &call.Results[i]):
			trip.own = append(trip.own, i)
		case t.Undo != nil && t.Undo.Own && (t.Op == stint.Refund || t.Op == stint.Settle):
			n.giveBack(r, t, now, &call.Results[i])
		default:
			trip.add(i, t, r)
		}
	}
	if len(trip.Call.Takes) > 0 {
		return trip
	}
	n.done(trip)
	return nil
}

// decides says whether take number i of a call may be charged to a part.
func (r *rule) decides(call *stint.Call, i int) bool {
	t := &call.Takes[i]
	if r == nil || r.own == nil || call.At != 0 || t.Op != stint.Ask || t.Cost == 0 || t.Borrows > 0 {
		return false
	}
	for j := range i {
		if j+int(call.Takes[j].Borrows) >= i {
			return false // it is leaned on
		}
	}
	return true
}

// add adds a take of the whole, as the store is asked it. What a policy would let pass is
// here already.
func (trip *Trip) add(i int, t *stint.Take, r *rule) {
	asked := *t
	if r != nil {
		how := *t.Handling
		how.Terms = r.terms
		if r.own != nil {
			how.OnFailure, how.Local = stint.Deny, nil
		}
		trip.handling = append(trip.handling, how) // one that moves for more leaves its old place as it was
		asked.Limit, asked.Handling = r.store, &trip.handling[len(trip.handling)-1]
	}
	trip.Call.Takes = append(trip.Call.Takes, asked)
	trip.of = append(trip.of, i)
	trip.rules = append(trip.rules, r)
}

// done keeps a trip for another one.
func (n *Node) done(trip *Trip) {
	clear(trip.Call.Takes) // the keys are the caller's
	clear(trip.rules)
	clear(trip.handling)
	*trip = Trip{
		Call: stint.Call{Takes: trip.Call.Takes[:0], Results: trip.Call.Results[:0]},
		of:   trip.of[:0], handling: trip.handling[:0], rules: trip.rules[:0], own: trip.own[:0],
	}
	n.trips.Put(trip)
}

// spend charges a take to the part, and answers, if it fits.
func (n *Node) spend(r *rule, t *stint.Take, now stint.Instant, d *stint.Decision) bool {
	if int64(t.Cost) > r.own.Capacity() {
		return false
	}
	s := n.shard(t.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.latest.Of(now)
	p, known := s.findLocked(r, t.Key, now)
	if p.rule != r || !r.own.Take(&p.state, now, uint64(t.Cost)).Allowed {
		return false
	}
	if !known {
		s.addLocked(p, t, max(1, n.keys/shards), now)
	}
	r.passed.Add(1)
	p.show(t, now, d)
	return true
}

// giveBack gives back what was charged to a part, and answers.
func (n *Node) giveBack(r *rule, t *stint.Take, now stint.Instant, d *stint.Decision) {
	*d = stint.Decision{Allowed: true, Limit: t.Limit.Capacity(), At: now}
	s := n.shard(t.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.latest.Of(now)
	p := s.parts[t.Key]
	if r == nil || r.own == nil || p == nil || p.rule != r {
		return // the rule has changed: it stays spent
	}
	if t.Op == stint.Refund {
		r.own.Refund(&p.state, now, uint64(t.Cost), t.Undo)
	}
	p.show(t, now, d)
}

// End takes the store's answer to a trip, or the error instead of one, which it returns.
func (n *Node) End(trip *Trip, now stint.Instant, err error) error {
	defer n.done(trip)
	if trip.whole == nil {
		return err
	}
	undecodable := transaction.Undecodable(err)
	failed := err != nil && undecodable == nil
	pass := !failed
	for i, of := range trip.of {
		t, d := &trip.whole.Takes[of], &trip.whole.Results[of]
		if failed || !transaction.Decided(&trip.Call, undecodable, i) {
			pass = pass && t.Independent
			continue
		}
		*d = trip.Call.Results[i]
		if r := trip.rules[i]; r != nil && r.own != nil {
			n.join(r, t, now, d)
		}
		pass = pass && (t.Independent || d.Allowed)
	}
	for _, i := range trip.own {
		t := &trip.whole.Takes[i]
		if pass || t.Independent && !failed {
			continue
		}
		back := *t
		back.Op, back.Undo = stint.Refund, &stint.Decision{}
		*back.Undo = trip.whole.Results[i]
		n.giveBack(n.rule(t, now), &back, now, &trip.whole.Results[i])
	}
	return transaction.Renumber(err, trip.of)
}

// join makes of what the store said of the rest what is said of the limit.
func (n *Node) join(r *rule, t *stint.Take, now stint.Instant, d *stint.Decision) {
	s := n.shard(t.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.latest.Of(now)
	p, known := s.findLocked(r, t.Key, now)
	switch {
	case p.rule != r:
		return
	case t.Op == stint.Reset:
		delete(s.parts, t.Key)
		*p, known = part{rule: r}, false
	case t.Op == stint.Force && d.Degraded:
		r.own.Force(&p.state, now, uint64(t.Cost))
		if !known {
			s.addLocked(p, t, max(1, n.keys/shards), now)
		}
	}
	if known && !d.Degraded {
		p.left, p.until = d.Remaining, now.Add(d.ResetAfter)
	}
	own := r.own.Test(&p.state, now, uint64(t.Cost))
	if d.Degraded {
		d.Remaining = 0
	}
	d.Limit = t.Limit.Capacity()
	d.Remaining = min(d.Limit, d.Remaining+own.Remaining)
	if !d.Allowed {
		d.RetryAfter = min(d.RetryAfter, max(own.RetryAfter, 1000))
		d.ResetAfter = max(d.ResetAfter, own.ResetAfter)
	}
}
