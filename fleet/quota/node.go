package quota

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/limits"
	"stint/internal/system"
	"stint/internal/transaction"
)

// DefaultKeys is the default of Options.Keys.
const DefaultKeys = 1 << 20

// Node holds the shares of one process. It is safe for concurrent use and never blocks. Its user
// calls the store for it, see Begin. The zero Node is not usable; see NewNode.
//
// Its times come from a clock that nobody sets and that never runs backwards. Where that clock
// starts does not matter.
type Node struct {
	keys     int
	seed     system.Seed
	shards   [shards]shard
	requests sync.Pool

	rulesMu sync.Mutex // held to change rules
	rules   atomic.Pointer[ruleSet]
}

// ruleSet holds the rules that a node knows. A take finds its rule by its terms, and a take with
// old terms by the name of the rule.
type ruleSet struct {
	byTerms map[*stint.Terms]*rule
	byName  map[name]*rule
}

type name struct{ domain, rule string }

// rule is a rule in force.
type rule struct {
	terms *stint.Terms
	own   *stint.Limit  // share of a process; nil: the limit is not divided
	store *stint.Limit  // limit that the store decides by
	empty stint.Instant // when unknown shares were used up

	passed *atomic.Uint64 // takes charged to shares
}

// NewNode returns a node without shares.
func NewNode(o Options) *Node {
	n := &Node{keys: cmp.Or(o.Keys, DefaultKeys), seed: system.NewSeed()}
	n.rules.Store(&ruleSet{map[*stint.Terms]*rule{}, map[name]*rule{}})
	for i := range n.shards {
		n.shards[i].shares = map[stint.Key]*share{}
	}
	n.requests.New = func() any { return new(Request) }
	return n
}

// Request is one call of a node to the store. Its owner lets the store decide Call and then
// passes the request to End.
type Request struct {
	// Call is the call that the store must decide.
	Call stint.Call

	whole    *stint.Call      // the call to the node; nil for the node's own messages
	index    []int            // for each take of Call its index in whole
	handling []stint.Handling // of takes of Call that need another one than they came with
	rules    []*rule          // of each take of Call; nil: its limit is not divided
	charged  []int            // indexes in whole of the takes charged to shares
}

// Charged reports whether take i of the call to the node was charged to a share.
func (req *Request) Charged(i int) bool { return slices.Contains(req.charged, i) }

// most returns the largest number of shares in a shard.
func (n *Node) most() int { return max(1, n.keys/shards) }

// shard returns the shard of a key.
func (n *Node) shard(key stint.Key) *shard { return &n.shards[n.seed.Sum(0, string(key))%shards] }

// rule returns the rule in force for a take, nil if its limit was never divided.
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

// addRule adds a rule. For a take with old terms it returns the rule in force.
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
	return &rule{terms: terms, own: terms.Own, store: limits.Stored(terms), empty: empty, passed: new(atomic.Uint64)}
}

// stored returns the limit that the store decides a take by. The numbers of a key may differ from those
// of its rule, while its shares are the same; the store then has the rest of these numbers.
func (r *rule) stored(t *stint.Take) *stint.Limit {
	if terms := t.Terms(); r.own != nil && terms.Own == r.own {
		return terms.Rest
	}
	return r.store
}

// Begin decides a call from the shares of the node, if it can, and then returns nil. Otherwise it
// returns a request to the store.
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
	most := transaction.Most(call)
	for i := range call.Takes {
		t := &call.Takes[i]
		if t.Op == stint.AskAtMost && !t.Independent && t.Cost > most {
			bounded := *t
			bounded.Cost, t = most, &bounded
		}
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

// decides reports whether take i of a call may be charged to a share.
func (r *rule) decides(call *stint.Call, i int) bool {
	t := &call.Takes[i]
	if r == nil || r.own == nil || call.At != 0 || !t.Op.Asks() || t.Cost == 0 || t.Borrows > 0 {
		return false
	}
	for j := range i {
		if j+int(call.Takes[j].Borrows) >= i {
			return false // an earlier take borrows from it
		}
	}
	return true
}

// add adds take i of the whole call, as the store must decide it. The store denies it on failure,
// because the share already is what the failure policy admits.
func (req *Request) add(i int, t *stint.Take, r *rule) {
	asked := *t
	if r != nil {
		how := *t.Handling
		how.Terms = r.terms
		if r.own != nil {
			how.OnFailure, how.Local = stint.Deny, nil
		}
		req.handling = append(req.handling, how) // if append moves the slice, earlier takes keep pointers into the old one, which stays valid
		asked.Limit, asked.Handling = r.stored(t), &req.handling[len(req.handling)-1]
	}
	req.Call.Takes = append(req.Call.Takes, asked)
	req.index = append(req.index, i)
	req.rules = append(req.rules, r)
}

// done clears a request for reuse.
func (n *Node) done(req *Request) {
	clear(req.Call.Takes) // the keys belong to the caller
	clear(req.rules)
	clear(req.handling)
	*req = Request{
		Call:  stint.Call{Takes: req.Call.Takes[:0], Results: req.Call.Results[:0]},
		index: req.index[:0], handling: req.handling[:0], rules: req.rules[:0], charged: req.charged[:0],
	}
	n.requests.Put(req)
}

// spend charges a take to the share and fills in the decision, if it fits.
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
		s.addLocked(p, t.Key, t.Handling.Place, n.most(), now)
	}
	r.passed.Add(1)
	p.show(t, now, d)
	if t.Op == stint.AskAtMost {
		d.Charge(uint64(t.Cost))
	}
	return true
}

// spendAtMost charges to the share what it has of an AskAtMost that the store denied, and fills in
// the decision. It does nothing if the share has nothing.
func (n *Node) spendAtMost(r *rule, t *stint.Take, now stint.Instant, d *stint.Decision) {
	s := n.shard(t.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.latest.Of(now)
	p, known := s.findLocked(r, t.Key, now)
	if p.rule != r {
		return
	}
	own := r.own.TakeAtMost(&p.state, now, uint64(t.Cost))
	if !own.Allowed {
		return
	}
	if !known {
		s.addLocked(p, t.Key, t.Handling.Place, n.most(), now)
	}
	r.passed.Add(1)
	p.show(t, now, d)
	d.Charge(uint64(own.Charged))
}

// giveBack gives back units of a share and fills in the decision.
func (n *Node) giveBack(r *rule, t *stint.Take, now stint.Instant, d *stint.Decision) {
	*d = stint.Decision{Allowed: true, Limit: t.Limit.Capacity(), At: now}
	s := n.shard(t.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.latest.Of(now)
	p := s.shares[t.Key]
	if r == nil || r.own == nil || p == nil || p.rule != r {
		return // the rule has changed: the units stay spent
	}
	if t.Op == stint.Refund {
		r.own.Refund(&p.state, now, uint64(t.Cost), t.Undo)
	}
	p.show(t, now, d)
}

// End applies the store's answer to a request. It returns err, the error of the store, with the
// takes numbered as in the call to the node.
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
			if t.Op == stint.AskAtMost && !d.Allowed && req.whole.At == 0 && (t.Independent || len(req.whole.Takes) == 1) {
				n.spendAtMost(r, t, now, d)
			}
		}
		pass = pass && (t.Independent || d.Allowed)
	}
	units := uint32(0) // that an AskAtMost keeps
	if pass {
		units = transaction.ChargedAtMost(req.whole)
	}
	for _, i := range req.charged {
		t, d := &req.whole.Takes[i], &req.whole.Results[i]
		switch {
		case t.Independent && !failed, pass && d.Charged <= units:
			continue
		}
		back := transaction.Refund(*t, uint64(t.Charged(d)-units), new(*d))
		n.giveBack(n.rule(t, now), &back, now, d)
	}
	transaction.SetCharged(req.whole, units)
	return transaction.Renumber(err, req.index)
}

// addShare adds the share to the store's decision, which is about the rest of the limit only.
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
			s.addLocked(p, t.Key, t.Handling.Place, n.most(), now)
		}
	}
	if known && !d.Degraded {
		p.left, p.until = d.Remaining, now.Add(d.ResetAfter)
	}
	own := r.own.Test(&p.state, now, uint64(transaction.DeniedCost(t)))
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
