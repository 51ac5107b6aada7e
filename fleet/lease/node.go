package lease

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/transaction"
)

// DefaultAhead is the default of Options.Ahead.
const DefaultAhead = 200 * time.Millisecond

// ticksPerAhead is how many ticks Options.Ahead has.
const ticksPerAhead = 8

// Node holds the units that one process was lent. It is safe for concurrent use and never blocks.
// Its user calls the store for it, see Begin and Tick. The zero Node is not usable; see NewNode.
type Node struct {
	id         uint64
	ahead      time.Duration
	part       func(*stint.Take) int
	always     bool // see Options.Always
	keys       table
	busyFilter busyFilter
	past       experiences
	requests   sync.Pool
	seq        atomic.Uint64 // of reports
	delay      atomic.Int64  // mean time of an answer of the store, in nanoseconds
	count      counters
	rules      sync.Map      // *stint.Terms to *counters
	resting    atomic.Bool   // no key is busy, and Tick is called seldom
	busyAgain  chan struct{} // has an element if a key became busy while the node was resting
	lastAnswer atomic.Int64  // time of the last answer of the store, by the monotonic clock
}

// counters are the figures behind Stats and Rules.
type counters struct {
	asks, messages, repeated, lent, returned atomic.Uint64
	usedUp, kept, lost                       atomic.Uint64 // see Loss
}

// NewNode returns a node without units.
func NewNode(o Options) *Node {
	n := &Node{id: o.Seed, ahead: cmp.Or(o.Ahead, DefaultAhead), part: o.Part, always: o.Always, busyAgain: make(chan struct{}, 1)}
	n.keys.init()
	if n.id == 0 {
		n.id = rand.Uint64N(1<<53-1) + 1 // a Lua script holds it exactly
	} else {
		n.keys.seed = [4]uint64{o.Seed*2 + 3, o.Seed*4 + 5, o.Seed*8 + 9, o.Seed*16 + 17}
	}
	n.requests.New = func() any { return new(Request) }
	return n
}

// Every returns the time between two calls of Tick.
func (n *Node) Every() time.Duration { return n.ahead / ticksPerAhead }

// Request is one call of a node to the store. Its owner lets the store decide Call and then
// passes the request to End.
type Request struct {
	// Call is the call that the store must decide.
	Call stint.Call

	whole   *stint.Call  // the call to the node; nil for the node's own messages
	index   []int        // for each take of Call its index in whole
	reports []loanReport // one for each take of Call
	charged []reserved   // takes that the node charged itself
	begun   Moment
}

// loanReport is what the node reports with one take of a request.
type loanReport struct {
	loan      stint.Loan
	handling  stint.Handling // of the take, with the loan
	entry     *entry         // nil if the key is not busy
	hasReport bool           // loan contains the node's units of the key
}

// reserved is a take that the node charged. It stays charged if the store passes the other takes.
type reserved struct {
	take int
	held *held
	now  Moment
}

// leasable reports whether the take can be decided from lent units.
func leasable(call *stint.Call, t *stint.Take) bool {
	return t.Coordination() == stint.Leased && call.At == 0 && t.Op.Asks() && t.Borrows == 0 && !t.Live() && t.Limit.ForStores().Leasable()
}

// Begin decides a call from the units of the node, if they suffice; req and wait are then nil.
// Otherwise it returns a request to the store. If another request about the key is in flight and
// may bring units for both, a patient caller gets wait instead. It waits until wait is closed,
// and calls Begin again.
func (n *Node) Begin(call *stint.Call, now Moment, patient bool) (req *Request, wait <-chan struct{}) {
	call.SizeResults()
	if len(call.Takes) != 1 {
		return n.beginSeveral(call, now), nil
	}
	t := &call.Takes[0]
	if !leasable(call, t) {
		return n.forward(call, now), nil
	}
	e := n.entry(t, now)
	if e != nil {
		if _, ok := e.decide(t, now, &call.Results[0]); ok {
			return nil, nil
		}
		if wait := e.wait(now, patient); wait != nil {
			return nil, wait
		}
	}
	req = n.newRequest(call, now)
	req.add(0, t, e)
	n.addReports(req, now)
	return req, nil
}

// busy returns the entry of the key of a call of one take. It returns nil if there is none or the
// call has several takes.
func (n *Node) busy(call *stint.Call) *entry {
	if len(call.Takes) != 1 || call.At != 0 {
		return nil
	}
	t := &call.Takes[0]
	if t.Coordination() != stint.Leased || t.Op != stint.Ask || t.Borrows != 0 || t.Live() || t.Limit == nil {
		return nil
	}
	return n.keys.find(n.keys.fingerprint(t), t)
}

// result returns the decision of a call of one take, to be filled in.
func result(call *stint.Call) *stint.Decision {
	if cap(call.Results) == 0 {
		call.Results = make([]stint.Decision, 1)
	}
	call.Results = call.Results[:1]
	return &call.Results[0]
}

// entry returns the entry of a take's key, nil if the key is not busy. It counts the take.
func (n *Node) entry(t *stint.Take, now Moment) *entry {
	fp := n.keys.fingerprint(t)
	e := n.keys.find(fp, t)
	if e != nil || t.Cost == 0 || !t.Limit.ForStores().Lends() || !n.busyFilter.busy(fp, now) {
		return e
	}
	e = newEntry(fp, t, now)
	e.always, e.experience = n.always, n.past.of(fp)
	if n.part != nil {
		e.part = n.part(t)
	}
	e = n.keys.add(e, t)
	if n.resting.CompareAndSwap(true, false) {
		select {
		case n.busyAgain <- struct{}{}:
		default: // it has an element
		}
	}
	return e
}

// rest reports whether no key is busy, so that Tick has nothing to do until busyAgain has an element.
func (n *Node) rest() bool {
	n.resting.Store(true)
	return n.keys.n.Load() == 0 || !n.resting.CompareAndSwap(true, false)
}

// wait returns the channel of a report in flight. It returns nil if the caller should ask the
// store itself.
func (e *entry) wait(now Moment, patient bool) <-chan struct{} {
	if !patient {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inFlight == nil || e.failed || !now.reached(e.strict) {
		return nil
	}
	return e.inFlight
}

// forward returns a request in which the store decides the whole call.
func (n *Node) forward(call *stint.Call, now Moment) *Request {
	req := n.newRequest(call, now)
	for i := range call.Takes {
		t := &call.Takes[i]
		req.add(i, t, nil)
		if t.Coordination() == stint.Leased && !t.Op.Asks() && t.Limit.ForStores().Leasable() { // units may be available after it
			if e := n.keys.find(n.keys.fingerprint(t), t); e != nil {
				e.denial.Store(nil)
			}
		}
	}
	n.addReports(req, now)
	return req
}

// beginSeveral is Begin for calls of several takes. It first charges the takes that the node can
// decide. The store decides the others.
func (n *Node) beginSeveral(call *stint.Call, now Moment) *Request {
	req := n.newRequest(call, now)
	refused := false // the node denied a take that is not independent
	for i := range call.Takes {
		t := &call.Takes[i]
		if !leasable(call, t) || isBorrowedFrom(call, i) {
			req.add(i, t, nil)
			continue
		}
		e := n.entry(t, now)
		if e == nil || t.Op == stint.AskAtMost { // the node returns its units, and the store decides
			req.add(i, t, e)
			continue
		}
		h, ok := e.decide(t, now, &call.Results[i])
		switch {
		case !ok:
			req.add(i, t, e)
		case h != nil:
			req.charged = append(req.charged, reserved{i, h, now})
		case t.Independent:
		default:
			refused = true
			req.add(i, t, e)
		}
	}
	if len(req.Call.Takes) > 0 && !(refused && n.allDenied(req)) {
		n.addReports(req, now)
		return req
	}
	req.conclude(!refused, false)
	n.done(req)
	return nil
}

// isBorrowedFrom reports whether an earlier take borrows from this one.
func isBorrowedFrom(call *stint.Call, i int) bool {
	for j := range i {
		if j+int(call.Takes[j].Borrows) >= i {
			return true
		}
	}
	return false
}

// allDenied reports whether the node itself has denied every take of a request.
func (n *Node) allDenied(req *Request) bool {
	for i := range req.index {
		if d := &req.whole.Results[req.index[i]]; req.reports[i].entry == nil || d.Allowed || d.RetryAfter == 0 {
			return false
		}
	}
	return true
}

// newRequest returns a request without takes.
func (n *Node) newRequest(call *stint.Call, now Moment) *Request {
	req := n.requests.Get().(*Request)
	req.whole, req.begun = call, now
	if call != nil {
		req.Call.At = call.At
		for i := range call.Results {
			call.Results[i] = stint.Decision{}
		}
	}
	return req
}

// done clears a request for reuse.
func (n *Node) done(req *Request) {
	clear(req.Call.Takes)
	clear(req.reports)
	clear(req.charged)
	*req = Request{
		Call:  stint.Call{Takes: req.Call.Takes[:0], Results: req.Call.Results[:0]},
		index: req.index[:0], reports: req.reports[:0], charged: req.charged[:0],
	}
	n.requests.Put(req)
}

// add adds take i of the whole call.
func (req *Request) add(i int, t *stint.Take, e *entry) {
	req.Call.Takes = append(req.Call.Takes, *t)
	req.index = append(req.index, i)
	req.reports = append(req.reports, loanReport{entry: e})
}

// addReports adds the node's reports to the takes of a request.
func (n *Node) addReports(req *Request, now Moment) {
	n.count.asks.Add(1)
	for i := range req.reports {
		a, t := &req.reports[i], &req.Call.Takes[i]
		if t.Coordination() != stint.Leased {
			continue
		}
		n.countersOf(t.Terms()).asks.Add(1)
		a.loan.KeptAfterLoss = t.Terms().KeptAfterLoss
		if a.entry != nil {
			a.entry.missed.Add(uint64(t.Cost))
			a.hasReport = n.report(a.entry, &a.loan, t, now)
		} else if t.Terms().KeptAfterLoss && t.Limit != nil && !t.Limit.ForStores().Lends() {
			continue // decided as in strict mode: no node has units, and the epoch changes nothing
		}
		a.attach(t)
	}
}

// attach adds the loan to the take. The take must be leased, so that it has a Handling.
func (a *loanReport) attach(t *stint.Take) {
	a.handling = *t.Handling
	a.handling.Loan = &a.loan
	t.Handling = &a.handling
}

// report writes the node's units of the key into a take's loan. It does nothing if a report is in
// flight or the store does not lend units of the key.
func (n *Node) report(e *entry, a *stint.Loan, t *stint.Take, now Moment) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.Cost == 0 || e.dead || e.inFlight != nil {
		return false
	}
	if limit := e.limit.Load(); limit != t.Limit && !limit.ForStores().Same(t.Limit) {
		e.limit.Store(t.Limit)
		e.take.Limit = t.Limit
	}
	if e.held.Load() == nil && !(now.reached(e.strict) && e.lendable()) {
		return false
	}
	e.updateRateLocked(now, n.ahead)
	if e.rate < stint.LeaseRate/2 && !e.unanswered && e.held.Load() == nil {
		return false // it became rare: as in strict mode
	}
	home := int64(0)
	if !e.unanswered {
		home = e.takeBackLocked()
	}
	e.cost = t.Cost
	want := max(n.wanted(e), stint.LeaseLeast*float64(t.Cost))
	switch {
	case !now.reached(e.strict):
		want = 0
	case now.since(e.asked) < n.ahead: // the last units were too few
		want = max(want, 4*float64(e.grant))
	}
	e.startReportLocked(a, n, home, want, now)
	return true
}

// End applies the store's answer to a request. It returns err, the error of the store, with the
// takes numbered as in the call to the node.
func (n *Node) End(req *Request, now Moment, err error) error {
	defer n.done(req)
	results := req.Call.Results
	if err == nil {
		n.lastAnswer.Store(now.Mono)
		n.delay.Store((7*n.delay.Load() + int64(now.since(req.begun))) / 8)
	}
	undecodable := transaction.Undecodable(err)
	failed := err != nil && undecodable == nil
	pass := !failed
	for i := range req.reports {
		a, t, said := &req.reports[i], &req.Call.Takes[i], err
		if !failed && transaction.Decided(&req.Call, undecodable, i) {
			said = nil
		}
		if said == nil && req.whole != nil {
			req.whole.Results[req.index[i]] = results[i]
		}
		pass = pass && (t.Independent || said == nil && results[i].Allowed)
		if a.entry != nil {
			n.applyAnswer(a, t, req.begun, now, results, i, said)
			if said == nil && req.whole != nil {
				req.whole.Results[req.index[i]].RetryAfter = results[i].RetryAfter
			}
		}
		if a.entry != nil && req.whole != nil && said == nil && !results[i].Allowed && len(req.whole.Takes) == 1 && t.Op == stint.AskAtMost {
			a.entry.held.Load().spendAtMost(t.Cost, now, &req.whole.Results[0])
		}
	}
	if req.whole == nil {
		return err
	}
	req.conclude(pass, failed)
	return transaction.Renumber(err, req.index)
}

// applyAnswer applies the store's answer about a key.
func (n *Node) applyAnswer(a *loanReport, t *stint.Take, begun, now Moment, results []stint.Decision, i int, err error) {
	e := a.entry
	answered := err == nil && !results[i].Degraded && (!a.hasReport || a.loan.Began != 0) // 0: the store did not process the loan
	if a.hasReport {
		e.mu.Lock()
		if answered {
			n.count.lent.Add(uint64(a.loan.Grant))
			n.count.returned.Add(uint64(a.loan.Home))
			of := n.countersOf(t.Terms())
			of.lent.Add(uint64(a.loan.Grant))
			of.returned.Add(uint64(a.loan.Home))
			e.applyLocked(&a.loan, &results[i], n.ahead, now)
		}
		e.endReportLocked(answered)
		e.mu.Unlock()
	}
	if answered {
		e.remaining.Store(results[i].Remaining)
		e.deny(t, &results[i], begun, now)
	}
}

// conclude gives back what the node charged if the call does not pass. If the call failed, it
// gives back independent takes too.
func (req *Request) conclude(pass, failed bool) {
	for _, r := range req.charged {
		if t := &req.whole.Takes[r.take]; failed || !pass && !t.Independent {
			r.held.giveBack(t.Cost)
			r.held.show(r.held.units(), r.now, &req.whole.Results[r.take])
		}
	}
}

// Tick returns the node's messages to the store: about keys that run low or are idle, and those
// whose last message has no answer. Each message has keys of one partition of the store.
//
// A node that has not called the store for a long time sends a peek. By its answers a node
// notices that the store was emptied, but only if it knew the store before.
func (n *Node) Tick(now Moment) []*Request {
	reqs := n.round(now, false)
	if n.count.asks.Load() > 0 && now.Mono-n.lastAnswer.Load() > int64(stint.LeaseTime/2) {
		req := n.newRequest(nil, now)
		req.add(0, &peek, nil)
		req.reports[0].loan = stint.Loan{}
		req.reports[0].attach(&req.Call.Takes[0])
		reqs = append(reqs, req)
	}
	return reqs
}

// peek is a take that changes nothing.
var peek = stint.Take{Key: "lease", Limit: stint.MustLimit(stint.Spec{Requests: 100, Per: time.Second}), Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased}}}

// Release returns the messages that return all units of a node that stops.
func (n *Node) Release(now Moment) []*Request { return n.round(now, true) }

// maxAsks is the number of keys in one message.
const maxAsks = 64

func (n *Node) round(now Moment, release bool) []*Request {
	var due []*entry
	for e := range n.keys.all {
		if n.due(e, now, release) {
			due = append(due, e)
		}
	}
	return n.messages(due, now, release)
}

// messages returns the messages about some keys.
func (n *Node) messages(due []*entry, now Moment, release bool) []*Request {
	slices.SortFunc(due, func(a, b *entry) int { return cmp.Compare(a.key, b.key) })
	var reqs []*Request
	last := map[int]*Request{}
	for _, e := range due {
		req := last[e.part]
		if req == nil || len(req.reports) == maxAsks {
			req = n.newRequest(nil, now)
			reqs, last[e.part] = append(reqs, req), req
		}
		n.addReport(req, e, now, release)
	}
	reqs = slices.DeleteFunc(reqs, func(req *Request) bool {
		empty := len(req.reports) == 0 // meanwhile others reported about all its keys
		if empty {
			n.done(req)
		}
		return empty
	})
	for _, req := range reqs {
		n.count.messages.Add(1)
		for i := range req.reports {
			t := &req.Call.Takes[i]
			req.reports[i].attach(t)
			n.countersOf(t.Terms()).messages.Add(1)
		}
	}
	return reqs
}

// due reports whether a message about a key is due. It drops a key that nobody requests any more.
func (n *Node) due(e *entry, now Moment, release bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updateRateLocked(now, n.ahead)
	if e.unanswered && now.since(e.asked) > stint.LeaseTime {
		e.unanswered = false // the store has written off what it granted
	}
	h, need := e.held.Load(), e.rate*n.ahead.Seconds()
	left := float64(h.units())
	switch {
	case e.inFlight != nil:
		return false
	case e.unanswered:
		return !release || left > 0
	case h == nil && need < 0.1 && e.idleTicks > 4*ticksPerAhead:
		e.dead = true
		n.keys.drop(e)
		n.past.keep(e.fp, e.experience)
		return false
	case left > 0 && (release || e.recall || now.reached(h.until) || n.surplus(e, left) > 0):
		return true
	case release:
		return false
	case left > 0 && now.Mono-h.answered > int64(renewAfter):
		return true
	}
	return e.rate >= stint.LeaseRate && !n.idle(e) && left < e.rate*n.lead() && now.reached(e.strict) && n.mayAsk(e, now) && (left > 0 || e.lendable())
}

// renewAfter is the time after an answer at which a node reports its unused units, so that it may
// keep them.
const renewAfter = stint.LeaseTime * 3 / 4

// mayAsk reports whether the store may have units of a key.
func (n *Node) mayAsk(e *entry, now Moment) bool {
	q := e.denial.Load()
	return q == nil || now.reached(q.until)
}

// lead returns how many seconds before its units are spent a node asks for more: the time until
// the next tick, and of the store's answer.
func (n *Node) lead() float64 {
	return (n.Every()*3/2 + 2*time.Duration(n.delay.Load())).Seconds()
}

// unitsPerMessage is how many units a message asks for, if the node spends them within maxAhead.
// The store then gets about one call for fifty decisions.
const (
	unitsPerMessage = 64
	maxAhead        = time.Second
)

// wanted returns how many units of a key the node wants to have after an answer. These last until
// the next answer.
func (n *Node) wanted(e *entry) float64 {
	return e.rate*n.lead() + max(e.rate*n.ahead.Seconds(), min(unitsPerMessage, e.rate*maxAhead.Seconds()))
}

// surplus returns how many of the unspent units the node does not need.
func (n *Node) surplus(e *entry, left float64) float64 {
	slice := n.wanted(e)
	switch {
	case n.idle(e):
		return left
	case left > 2*slice+2:
		return left - slice
	}
	return 0
}

// idle reports whether a key was not requested for so long that this is hardly chance: of requests
// at random times only one gap in 400 is longer.
func (n *Node) idle(e *entry) bool {
	return e.idleTicks >= 2 && e.busyRate*float64(e.idleTicks)*n.Every().Seconds() > 6
}

// addReport adds the report about a key to a message.
func (n *Node) addReport(req *Request, e *entry, now Moment, release bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inFlight != nil {
		return
	}
	req.add(0, &e.take, e)
	a := &req.reports[len(req.reports)-1]
	a.hasReport = true
	if e.unanswered {
		n.count.repeated.Add(1)
		e.startReportLocked(&a.loan, n, 0, 0, now)
		return
	}
	h, home, want := e.held.Load(), int64(0), 0.0
	left := h.units()
	switch extra := int64(n.surplus(e, float64(left))); {
	case h == nil && now.reached(e.strict):
		want = n.wanted(e)
	case left > 0 && (release || e.recall || extra >= left || now.reached(h.until)):
		home = e.takeBackLocked()
	case extra > 0:
		home = h.take(extra)
		e.start -= home
	case now.reached(e.strict):
		want = n.wanted(e) - float64(left)
	}
	e.startReportLocked(&a.loan, n, home, want, now)
}
