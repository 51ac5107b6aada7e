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

// DefaultAhead is how far ahead a node asks where Options are silent.
const DefaultAhead = 200 * time.Millisecond

// ticksPerAhead is how often a node looks at all keys within the time that it asks ahead.
const ticksPerAhead = 8

// Node holds the units that one process was lent. It is safe for concurrent use and never blocks: its
// user asks the store for it, see Begin and Tick. The zero Node is not usable; see NewNode.
type Node struct {
	id         uint64
	ahead      time.Duration
	part       func(*stint.Take) int
	keys       table
	busyFilter busyFilter
	requests   sync.Pool
	seq        atomic.Uint64 // of asks
	delay      atomic.Int64  // of an answer of the store, nanoseconds
	count      counters
	rules      sync.Map     // *stint.Terms: *counters
	lastAnswer atomic.Int64 // when the store last answered, by the monotonic clock
}

// counters are the numbers that Stats and Rules return.
type counters struct{ asks, messages, repeated, lent, returned atomic.Uint64 }

// NewNode returns a node without units.
func NewNode(o Options) *Node {
	n := &Node{id: o.Seed, ahead: cmp.Or(o.Ahead, DefaultAhead), part: o.Part}
	n.keys.init()
	if n.id == 0 {
		n.id = rand.Uint64N(1<<53-1) + 1 // which a script's number holds exactly
	} else {
		n.keys.seed = [4]uint64{o.Seed*2 + 3, o.Seed*4 + 5, o.Seed*8 + 9, o.Seed*16 + 17}
	}
	n.requests.New = func() any { return new(Request) }
	return n
}

// Every is how often Tick is to be called.
func (n *Node) Every() time.Duration { return n.ahead / ticksPerAhead }

// Request is one call of a node to the store. Its owner has the store decide Call, and then passes the req
// to End.
type Request struct {
	// Call is to be decided by the store.
	Call stint.Call

	whole   *stint.Call  // the call to the node; nil for the node's own messages
	index   []int        // for each take of Call its number in whole
	reports []loanReport // one for each take of Call
	charged []reserved   // takes that were charged here
	begun   Moment
}

// loanReport is what the node reports to the store with one take of a req.
type loanReport struct {
	loan      stint.Loan
	handling  stint.Handling // that of the take, with the loan
	entry     *entry         // nil for a key that is not busy
	hasReport bool           // loan reports the node's units of the key
}

// reserved is a take that was charged here, and stays charged if the store passes the other takes.
type reserved struct {
	take int
	held *held
	now  Moment
}

// leasable reports whether the take can be decided from lent units.
func leasable(call *stint.Call, t *stint.Take) bool {
	return t.Coordination() == stint.Leased && call.At == 0 && t.Op == stint.Ask && t.Borrows == 0 && !t.Live() && t.Limit.ForStores().Leasable()
}

// Begin answers a call from the units that the node holds, if they suffice; req and wait are then nil.
// Otherwise it returns the req to the store. If another call about the key is already under way, and may
// bring units for both, a patient caller gets wait instead: it waits until wait is closed and calls Begin
// again, now impatient.
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

// busy returns the entry of the key of a call of one take, nil if there is none or the call has several
// takes.
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

// result returns the place for the answer to a call of one take.
func result(call *stint.Call) *stint.Decision {
	if cap(call.Results) == 0 {
		call.Results = make([]stint.Decision, 1)
	}
	call.Results = call.Results[:1]
	return &call.Results[0]
}

// entry returns the entry of a take's key, nil if the key is not busy.
func (n *Node) entry(t *stint.Take, now Moment) *entry {
	fp := n.keys.fingerprint(t)
	e := n.keys.find(fp, t)
	if e != nil || t.Cost == 0 || n.busyFilter.count(fp, now, n.ahead) < 2 {
		return e
	}
	e = newEntry(fp, t, now)
	if n.part != nil {
		e.part = n.part(t)
	}
	return n.keys.add(e, t)
}

// wait returns a channel to wait for instead of asking the store, nil if the store is to be asked.
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

// forward returns a req in which the store decides the whole call.
func (n *Node) forward(call *stint.Call, now Moment) *Request {
	req := n.newRequest(call, now)
	for i := range call.Takes {
		t := &call.Takes[i]
		req.add(i, t, nil)
		if t.Coordination() == stint.Leased && t.Op != stint.Ask && t.Limit.ForStores().Leasable() { // it may have more from now on
			if e := n.keys.find(n.keys.fingerprint(t), t); e != nil {
				e.denial.Store(nil)
			}
		}
	}
	n.addReports(req, now)
	return req
}

// beginSeveral is Begin for calls of several takes. It first charges the takes that can be charged here.
// The store decides the others.
func (n *Node) beginSeveral(call *stint.Call, now Moment) *Request {
	req := n.newRequest(call, now)
	refused := false // together with others
	for i := range call.Takes {
		t := &call.Takes[i]
		if !leasable(call, t) || isBorrowedFrom(call, i) {
			req.add(i, t, nil)
			continue
		}
		e := n.entry(t, now)
		if e == nil {
			req.add(i, t, nil)
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

// allDenied reports whether every take of a req is denied by what the node knows.
func (n *Node) allDenied(req *Request) bool {
	for i := range req.index {
		if d := &req.whole.Results[req.index[i]]; req.reports[i].entry == nil || d.Allowed || d.RetryAfter == 0 {
			return false
		}
	}
	return true
}

// newRequest returns a req without takes.
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

// done clears a req and keeps its memory for the next one.
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

// add adds a take of the whole.
func (req *Request) add(i int, t *stint.Take, e *entry) {
	req.Call.Takes = append(req.Call.Takes, *t)
	req.index = append(req.index, i)
	req.reports = append(req.reports, loanReport{entry: e})
}

// addReports adds the node's reports to the takes of a req.
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
		}
		a.attach(t)
	}
}

// attach gives a take the loan. The take must be leased, so it has a Handling.
func (a *loanReport) attach(t *stint.Take) {
	a.handling = *t.Handling
	a.handling.Loan = &a.loan
	t.Handling = &a.handling
}

// report writes into a take's loan which units of the key the node has. It does nothing if such a report
// is under way, or the store does not lend units of the key.
func (n *Node) report(e *entry, a *stint.Loan, t *stint.Take, now Moment) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.Cost == 0 || e.dead || e.inFlight != nil || !now.reached(e.strict) && e.held.Load() == nil {
		return false
	}
	if limit := e.limit.Load(); limit != t.Limit && !limit.ForStores().Same(t.Limit) {
		e.limit.Store(t.Limit)
		e.take.Limit = t.Limit
	}
	e.updateRateLocked(now, n.ahead)
	home := int64(0)
	if !e.unanswered {
		home = e.takeBackLocked()
	}
	e.startReportLocked(a, n, home, max(n.wanted(e), 4*float64(e.grant), 8), now)
	return true
}

// End takes the store's answer to a req, or the error instead of one, which it returns.
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
	answered := err == nil && !results[i].Degraded && (!a.hasReport || a.loan.Began != 0) // 0: nobody looked at it
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
		e.deny(t, &results[i], begun, now)
	}
}

// conclude gives back what was charged here if the call does not pass. If the call failed, it gives back
// Independent takes too.
func (req *Request) conclude(pass, failed bool) {
	for _, r := range req.charged {
		if t := &req.whole.Takes[r.take]; failed || !pass && !t.Independent {
			r.held.giveBack(t.Cost)
			r.held.show(r.held.units(), r.now, &req.whole.Results[r.take])
		}
	}
}

// Tick returns the node's messages to the store: about keys that run low or are idle, and about those
// whose last message had no answer. Each message has keys of one part of the store.
//
// A node that has not asked for a long time sends a peek: only a node that knew the store before can
// notice that it was emptied.
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

// Release returns the messages that return all units, for a node that stops.
func (n *Node) Release(now Moment) []*Request { return n.round(now, true) }

// maxAsks is how many keys are in a message.
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

// due reports whether there is a message to send about a key. It drops a key that is no longer asked for.
func (n *Node) due(e *entry, now Moment, release bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updateRateLocked(now, n.ahead)
	if e.unanswered && now.since(e.asked) > stint.LeaseTime {
		e.unanswered = false // whatever it was granted is written off
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
		return false
	case left > 0 && (release || e.recall || now.reached(h.until) || n.surplus(e, left) > 0):
		return true
	case release:
		return false
	case left > 0 && now.Mono-h.answered > int64(stint.LeaseTime/2):
		return true
	}
	return need >= 2 && !n.idle(e) && left < e.rate*n.lead() && now.reached(e.strict) && n.mayAsk(e, now)
}

// mayAsk reports whether the store may have units of a key.
func (n *Node) mayAsk(e *entry, now Moment) bool {
	q := e.denial.Load()
	return q == nil || now.reached(q.until)
}

// lead returns how long before its units are spent a node asks for more, in seconds: the time until the
// next look, and until the store's answer after that.
func (n *Node) lead() float64 {
	return (n.Every()*3/2 + 2*time.Duration(n.delay.Load())).Seconds()
}

// unitsPerMessage is how many units a message asks for, if a node spends as many within twice the time that it asks
// ahead. The store then has about one call for fifty decisions.
const unitsPerMessage = 64

// wanted returns how many units of a key the node wants to have after an answer: those it will spend until
// the next answer.
func (n *Node) wanted(e *entry) float64 {
	need := e.rate * n.ahead.Seconds()
	return e.rate*n.lead() + max(need, min(unitsPerMessage, 2*need))
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

// idle reports whether a key has not been asked for in a time in which it usually is.
func (n *Node) idle(e *entry) bool {
	return e.rate*n.ahead.Seconds() < 1 || e.idleTicks >= 2 && e.rate*n.Every().Seconds() > 1
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
	case h == nil:
		want = n.wanted(e)
	case left > 0 && (release || e.recall || extra >= left || now.reached(h.until)):
		home = e.takeBackLocked()
	case extra > 0:
		home = h.take(extra)
		e.start -= home
	default:
		want = n.wanted(e) - float64(left)
	}
	e.startReportLocked(&a.loan, n, home, want, now)
}
