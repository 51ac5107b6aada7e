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
	keys     int
	seed     system.Seed
	shards   [shards]shard
	requests sync.Pool

	rulesMu sync.Mutex // of who changes rules
	rules   atomic.Pointer[ruleSet]
}

// ruleSet are the rules that a node knows. Those of takes are found by their terms; who comes
// with older ones finds what is in force instead.
type ruleSet struct {
	byTerms map[*stint.Terms]*rule
	byName  map[name]*rule
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
	n.rules.Store(&ruleSet{map[*stint.Terms]*rule{}, map[name]*rule{}})
	for i := range n.shards {
		n.shards[i].shares = map[stint.Key]*share{}
	}
	n.requests.New = func() any { return new(Request) }
	return n
}

// Request is what a node asks the store: whoever gets one puts Call to it, and then hands both
// to End.
type Request struct {
	// Call is to be decided by the store.
	Call stint.Call

	whole    *stint.Call      // what the node was asked; nil: nobody asked
	index    []int            // which take of the whole each take of Call is
	handling []stint.Handling // of takes of Call that are asked otherwise than they came
	rules    []*rule          // of each take of Call; nil: it is not divided
	charged  []int            // the takes of the whole that were charged here
}

// Charged says whether take number i of what the node was asked was charged to its own part.
func (req *Request) Charged(i int) bool { return slices.Contains(req.charged, i) }

// shard returns where a key stands.
func (n *Node) shard(key stint.Key) *shard { return &n.shards[n.seed.Sum(0, string(key))%shards] }

// rule returns what is in force for a take's rule, nil for one that was never divided.
func (n *Node) rule(t *stint.Take, now stint.Instant) *rule {
	if t.Terms() == nil {
		return nil
	}
	known := n.rules.Load()
	if r := known.byTerms[t.Terms()]; r != nil || t.Terms().Own == nil {
		return r
	}
	if r := known.byName[name{t.Terms().Domain, t.Terms().Rule}]; r != nil {
		return r
	}
	return n.addRule(t.Terms(), now)
}

// addRule comes to know a rule. A take that is under way for longer than its rule is in force
// comes here too, and finds what is in force now.
func (n *Node) addRule(terms *stint.Terms, now stint.Instant) *rule {
	n.rulesMu.Lock()
	defer n.rulesMu.Unlock()
	old, id := n.rules.Load(), name{terms.Domain, terms.Rule}
	if r := old.byName[id]; r != nil {
		return r
	}
	r := newRule(terms, now)
	next := ruleSet{maps.Clone(old.byTerms), maps.Clone(old.byName)}
	next.byTerms[terms], next.byName[id] = r, r
	n.rules.Store(&next)
	return r
}

func newRule(terms *stint.Terms, empty stint.Instant) *rule {
	return &rule{terms: terms, own: terms.Own, store: terms.Stored(), empty: empty, passed: new(atomic.Uint64)}
}

// Begin answers a call from what the node has for itself, where it can: then it returns nil.
// Else it returns what to ask the store.
func (n *Node) Begin(call *stint.Call, now stint.Instant) *Request {
	call.SizeResults()
	if len(call.Takes) == 1 {
		t := &call.Takes[0]
		if r := n.rule(t, now); r.decides(call, 0) && n.spend(r, t, now, &call.Results[0]) {
			return nil
		}
	}
	req := n.requests.Get().(*Request)
	req.whole, req.Call.At = call, call.At
	for i := range call.Takes {
		t := &call.Takes[i]
		r := n.rule(t, now)
		switch {
		case len(call.Takes) > 1 && r.decides(call, i) && n.spend(r, t, now, &call.Results[i]):
			req.charged = append(req.charged, i)
		case t.Undo != nil && t.Undo.Own && (t.Op == stint.Refund || t.Op == stint.Settle):
			n.giveBack(r, t, now, &call.Results[i])
		default:
			req.add(i, t, r)
		}
	}
	if len(req.Call.Takes) > 0 {
		return req
	}
	n.done(req)
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
func (req *Request) add(i int, t *stint.Take, r *rule) {
	asked := *t
	if r != nil {
		how := *t.Handling
		how.Terms = r.terms
		if r.own != nil {
			how.OnFailure, how.Local = stint.Deny, nil
		}
		req.handling = append(req.handling, how) // one that moves for more leaves its old place as it was
		asked.Limit, asked.Handling = r.store, &req.handling[len(req.handling)-1]
	}
	req.Call.Takes = append(req.Call.Takes, asked)
	req.index = append(req.index, i)
	req.rules = append(req.rules, r)
}

// done keeps a req for another one.
func (n *Node) done(req *Request) {
	clear(req.Call.Takes) // the keys are the caller's
	clear(req.rules)
	clear(req.handling)
	*req = Request{
		Call:  stint.Call{Takes: req.Call.Takes[:0], Results: req.Call.Results[:0]},
		index: req.index[:0], handling: req.handling[:0], rules: req.rules[:0], charged: req.charged[:0],
	}
	n.requests.Put(req)
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
	p := s.shares[t.Key]
	if r == nil || r.own == nil || p == nil || p.rule != r {
		return // the rule has changed: it stays spent
	}
	if t.Op == stint.Refund {
		r.own.Refund(&p.state, now, uint64(t.Cost), t.Undo)
	}
	p.show(t, now, d)
}

// End takes the store's answer to a req, or the error instead of one, which it returns.
func (n *Node) End(req *Request, now stint.Instant, err error) error {
	defer n.done(req)
	if req.whole == nil {
		return err
	}
	undecodable := transaction.Undecodable(err)
	failed := err != nil && undecodable == nil
	pass := !failed
	for i, of := range req.index {
		t, d := &req.whole.Takes[of], &req.whole.Results[of]
		if failed || !transaction.Decided(&req.Call, undecodable, i) {
			pass = pass && t.Independent
			continue
		}
		*d = req.Call.Results[i]
		if r := req.rules[i]; r != nil && r.own != nil {
			n.addShare(r, t, now, d)
		}
		pass = pass && (t.Independent || d.Allowed)
	}
	for _, i := range req.charged {
		t := &req.whole.Takes[i]
		if pass || t.Independent && !failed {
			continue
		}
		back := *t
		back.Op, back.Undo = stint.Refund, &stint.Decision{}
		*back.Undo = req.whole.Results[i]
		n.giveBack(n.rule(t, now), &back, now, &req.whole.Results[i])
	}
	return transaction.Renumber(err, req.index)
}

// addShare makes of what the store said of the rest what is said of the limit.
func (n *Node) addShare(r *rule, t *stint.Take, now stint.Instant, d *stint.Decision) {
	s := n.shard(t.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.latest.Of(now)
	p, known := s.findLocked(r, t.Key, now)
	switch {
	case p.rule != r:
		return
	case t.Op == stint.Reset:
		delete(s.shares, t.Key)
		*p, known = share{rule: r}, false
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
