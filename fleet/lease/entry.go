package lease

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
)

// entry is a node's state of one busy key. Takes that the node can decide read only held and
// denial.
type entry struct {
	fp        uint64
	key       stint.Key
	limit     atomic.Pointer[stint.Limit]
	held      atomic.Pointer[held]
	denial    atomic.Pointer[denial]
	missed    atomic.Uint64 // units that were requested and not spent on this node
	remaining atomic.Int64  // at the store, at its last answer; 0 before the first
	algorithm stint.Algorithm
	part      int  // partition of the store
	always    bool // see Options.Always

	mu       sync.Mutex    // guards the fields below
	take     stint.Take    // take that carries the reports about the key
	inFlight chan struct{} // closed when the report in flight is answered; nil: none is in flight
	failed   bool          // the last report had no answer
	dead     bool          // the entry is no longer in the table
	seq      uint64        // number of the last report
	epoch    stint.Instant // epoch of the store in which the units were lent
	experience
	recall    bool   // the store wants the units back
	lostAt    Moment // time of the last answer that had another epoch than the one before
	lostUnits int64  // unspent units at that answer, and those that the report returned

	unanswered bool   // the last report has no answer, and is repeated
	asked      Moment // when that report was first sent
	returned   uint32 // units that the report returned

	start     int64   // units of held at its start
	spent     int64   // units spent before held was made
	counted   int64   // units spent until rateAt
	rateAt    Moment  // time of the last update of rate
	rate      float64 // units requested per second
	busyRate  float64 // rate when a unit was last requested
	idleTicks int     // ticks since then
	grant     uint32  // units of the last answer with any

	lent   bool   // after its last answer the node had units
	usedAt int64  // units spent until the last report
	cost   uint32 // of the last take that the store decided
}

func newEntry(fp uint64, t *stint.Take, now Moment) *entry {
	e := &entry{fp: fp, take: t.Clone(), algorithm: t.Limit.Algorithm(), rateAt: now, rate: stint.LeaseRate, busyRate: stint.LeaseRate, experience: noExperience}
	e.limit.Store(t.Limit)
	e.key = e.take.Key
	e.take.Cost, e.take.Independent = 0, true
	return e
}

// answer decides a take if the node can and the take has the same *Limit as the entry.
func (e *entry) answer(t *stint.Take, now Moment, d *stint.Decision) bool {
	if t.Limit != e.limit.Load() {
		return false
	}
	_, ok := e.decide(t, now, d)
	return ok
}

// decide decides a take if the node can. It returns the held that it took units from.
func (e *entry) decide(t *stint.Take, now Moment, d *stint.Decision) (by *held, ok bool) {
	if t.Limit != e.limit.Load() && !t.Limit.ForStores().Same(e.limit.Load()) {
		return nil, false
	}
	if h := e.held.Load(); h != nil && h.spend(t.Cost, now, d) {
		if t.Op == stint.AskAtMost {
			d.Charge(uint64(t.Cost))
		}
		return h, true
	}
	if q := e.denial.Load(); q != nil && q.refuse(transaction.DeniedCost(t), now, d) {
		if t.Op == stint.AskAtMost {
			e.held.Load().spendAtMost(t.Cost, now, d)
		}
		e.missed.Add(uint64(t.Cost))
		return nil, true
	}
	return nil, false
}

// usedLocked returns how many units the node has spent in all.
func (e *entry) usedLocked() int64 {
	n := e.spent
	if h := e.held.Load(); h != nil && h.left.Load() >= 0 {
		n += e.start - h.units()
	}
	return n
}

// updateRateLocked updates the rate. Older requests weigh less; of a rare key they weigh longer.
func (e *entry) updateRateLocked(now Moment, ahead time.Duration) {
	dt := now.since(e.rateAt)
	if dt < ahead/64 {
		return
	}
	used := e.usedLocked() - e.counted
	e.counted += used
	asked := float64(used + int64(e.missed.Swap(0)))
	over := max(ahead.Seconds()/2, min(maxAhead.Seconds()/2, stint.LeaseRate/e.rate))
	e.rate += (asked/dt.Seconds() - e.rate) * -math.Expm1(-dt.Seconds()/over)
	e.rateAt = now
	if e.strictAt > 0 && e.rate > growth*e.strictAt {
		e.strict, e.strictFor, e.strictAt = now, 0, 0
	}
	if e.idleTicks++; asked > 0 {
		e.busyRate, e.idleTicks = e.rate, 0
	}
}

// takeBackLocked removes held and returns its unspent units.
func (e *entry) takeBackLocked() int64 {
	h := e.held.Load()
	left := h.close()
	if h != nil {
		e.spent += e.start - left
		e.held.Store(nil)
	}
	return left
}

// startReportLocked starts a report that returns some units; the node keeps the others. A report
// without an answer is repeated and returns the same units.
func (e *entry) startReportLocked(a *stint.Loan, n *Node, home int64, want float64, now Moment) {
	e.inFlight = make(chan struct{})
	if !e.unanswered {
		e.updateSavingsLocked()
		e.seq = n.seq.Add(1)
		e.asked, e.returned, e.unanswered = now, clip(float64(home)), true
	}
	*a = stint.Loan{
		Node: n.id, Seq: e.seq, Epoch: e.epoch, Kept: clip(float64(e.held.Load().report())), Home: e.returned,
		Want: clip(want), KeptAfterLoss: e.take.Terms().KeptAfterLoss,
	}
}

// updateSavingsLocked updates savings by the units that the last report brought. Takes count as if
// each cost as much as the last one that the store decided.
func (e *entry) updateSavingsLocked() {
	used := e.usedLocked()
	if e.lent {
		e.savings += (float64(used-e.usedAt)/float64(max(1, e.cost)) - e.savings) / 4
	}
	e.usedAt = used
}

// lendable reports whether the store may lend units of a key of which the node has none.
func (e *entry) lendable() bool { return e.hasMany() || e.refills() }

// hasMany reports whether the store has so many units that it may lend LeaseLeast: at most half of them.
func (e *entry) hasMany() bool { return e.always || e.remaining.Load() >= 2*stint.LeaseLeast }

// refills reports whether so much of a bucket refills in a pause that a few nodes can share it.
func (e *entry) refills() bool {
	nodes, _ := e.sharedBy()
	return nodes > 0
}

// sharedBy is limits.SharedBy for takes that cost as much as the last one that the store decided.
func (e *entry) sharedBy() (nodes int, pause time.Duration) {
	return limits.SharedBy(e.limit.Load(), max(1, e.cost))
}

// clip limits n to the range of the fields of a loan.
func clip(n float64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

const (
	// moreUnlent is by how much longer a node waits each time that the store lent it nothing.
	moreUnlent = 64

	// leastUnpaid and maxUnpaid are the shortest and the longest time for which a node asks for no
	// units because reports saved too few calls, or because the store lent none. As long as any
	// node is known at the store, each take of the key costs more, so all nodes must try seldom.
	leastUnpaid, maxUnpaid = 32 * time.Second, 256 * time.Second

	// growth is by how much the rate of a key must grow for a node to try again before that.
	growth = 3
)

// applyLocked applies the answer to a report: the lent units, or that there are none.
func (e *entry) applyLocked(a *stint.Loan, d *stint.Decision, ahead time.Duration, now Moment) {
	e.unanswered, e.recall = false, a.Recall
	if e.epoch != 0 && e.epoch != a.Began {
		e.lostAt, e.lostUnits = now, e.held.Load().units()+int64(a.Home)
	}
	kept := min(e.takeBackLocked(), int64(a.Held))
	if a.Began != e.epoch && !a.KeptAfterLoss { // otherwise a.Held is what the store still has of the lease
		kept = 0
	}
	e.epoch = a.Began
	has := kept + int64(a.Grant)
	if e.lent = has > 0; e.lent {
		e.start = has
		e.held.Store(heldOf(has, e.asked.Add(a.Lease), d, now))
	}
	if e.lent || !a.Recall { // while a large take waits, small ones are denied as before
		e.denial.Store(nil)
	}
	if a.Empty > 0 {
		e.denial.Store(&denial{
			until: e.asked.Add(min(a.Empty, maxDenial)), cost: 1, empty: a.Empty,
			limit: e.limit.Load(), decision: *d, answered: now,
		})
	}
	nodes, pause := e.sharedBy()
	shared := nodes > 0 && a.Empty >= pause
	if shared { // a message takes the place of all calls of a pause, and need not save more
		e.savings = noExperience.savings
	}
	switch {
	case a.Recall:
		e.strict = now.Add(ahead / 4)
	case a.Want > 0 && kept == 0 && a.Grant == 0 && !shared: // wait longer each time
		e.waitLocked(now, min(max(moreUnlent*e.strictFor, ahead/4), maxUnpaid))
	case a.Want > 0 && e.savings < stint.LeaseSavings: // try again later, with a few reports
		e.waitLocked(now, min(max(2*e.strictFor, leastUnpaid), maxUnpaid))
		e.savings = 1.5 * stint.LeaseSavings
	case a.Grant > 0 && (shared || e.savings >= 2*stint.LeaseSavings):
		e.strictFor = 0
	}
	e.grant = max(a.Grant, e.grant/2)
}

// waitLocked makes the node ask for no units for some time, as long as the rate grows little.
func (e *entry) waitLocked(now Moment, d time.Duration) {
	if e.always {
		return
	}
	e.strict, e.strictFor, e.strictAt = now.Add(d), d, max(e.rate, stint.LeaseRate)
}

// endReportLocked ends the report and wakes the callers that wait for its answer.
func (e *entry) endReportLocked(answered bool) {
	e.failed = !answered
	close(e.inFlight)
	e.inFlight = nil
}

// pause is for how long the node denies takes after the store denied one, at least: of a busy bucket that is used
// up and of which the node gets no units. It is as long as that of nodes that borrow. Otherwise each node would ask
// for each unit, and all but one would be denied.
func (e *entry) pause(now Moment) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.algorithm != stint.TokenBucket || e.held.Load() != nil || now.reached(e.strict) && e.hasMany() {
		return 0
	}
	_, pause := e.sharedBy()
	return pause
}

// deny stores that the store denied a take, so that the node does not ask again before its retry
// time, which deny may make later.
func (e *entry) deny(t *stint.Take, d *stint.Decision, asked, now Moment) {
	if d.Allowed || d.Degraded || d.RetryAfter == stint.Never || t.Cost == 0 {
		return
	}
	cost := transaction.DeniedCost(t)
	if q := e.denial.Load(); q != nil && !now.reached(q.until) && q.cost <= cost { // else this one denies more takes
		var again stint.Decision
		if q.refuse(cost, now, &again) {
			d.RetryAfter = max(d.RetryAfter, again.RetryAfter) // the node denies it until then
		}
		return
	}
	if refusable(t.Limit, cost) { // else a pause saves no call
		d.RetryAfter = max(d.RetryAfter, e.pause(now))
	}
	e.denial.Store(&denial{
		until: asked.Add(min(d.RetryAfter, maxDenial)), cost: cost, empty: d.RetryAfter,
		limit: t.Limit, decision: *d, answered: now,
	})
}
