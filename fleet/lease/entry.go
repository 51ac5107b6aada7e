package lease

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stint"
)

// entry is what a node knows of a busy key. Takes that it can answer look at held and
// quiet and nothing else.
type entry struct {
	fp        uint64
	key       stint.Key
	limit     atomic.Pointer[stint.Limit]
	held      atomic.Pointer[held]
	quiet     atomic.Pointer[quiet]
	missed    atomic.Uint64 // units that were asked for and not spent from here
	algorithm stint.Algorithm
	part      int // of the store

	mu     sync.Mutex    // guards what follows
	take   stint.Take    // how to ask about it
	flight chan struct{} // closed when the ask under way has an answer; nil: there is none
	failed bool          // the last one had none
	dead   bool          // it is in the table no more
	seq    uint64        // of the last ask
	epoch  stint.Instant // in which it was lent what it holds
	strict Moment        // until then every take is decided at the store
	recall bool          // the store wants back what it lent

	unanswered bool   // the last ask has no answer: it is repeated
	asked      Moment // when it was first asked
	home       uint32 // what it gave back

	start   int64   // units that it held in the beginning
	spent   int64   // of what it does not hold any more, units
	counted int64   // of all that was spent, when somebody last looked
	looked  Moment  // when that was
	rate    float64 // units per second that are asked for
	unused  int     // looks since anything was spent
	grant   uint32  // by the last answer that granted anything
}

func newEntry(fp uint64, t *stint.Take, now Moment) *entry {
	e := &entry{fp: fp, key: stint.Key(strings.Clone(string(t.Key))), algorithm: t.Limit.Algorithm(), looked: now}
	e.limit.Store(t.Limit)
	e.take = *t
	e.take.Key = e.key
	e.take.Place = stint.Key(strings.Clone(string(t.Place)))
	e.take.Cost, e.take.Independent, e.take.Loan = 0, true, nil
	return e
}

// answer answers a take if it can be answered here, of the very limit that the key was
// lent under.
func (e *entry) answer(t *stint.Take, now Moment, d *stint.Decision) bool {
	if t.Limit != e.limit.Load() {
		return false
	}
	_, ok := e.decide(t, now, d)
	return ok
}

// decide answers a take if it can be answered here, and returns what it took units from.
func (e *entry) decide(t *stint.Take, now Moment, d *stint.Decision) (by *held, ok bool) {
	if t.Limit != e.limit.Load() && !t.Limit.Same(e.limit.Load()) {
		return nil, false
	}
	if h := e.held.Load(); h != nil && h.spend(t.Cost, now, d) {
		return h, true
	}
	if q := e.quiet.Load(); q != nil && q.refuse(t.Cost, now, d) {
		e.missed.Add(uint64(t.Cost))
		return nil, true
	}
	return nil, false
}

// usedLocked returns all units that were spent here.
func (e *entry) usedLocked() int64 {
	n := e.spent
	if h := e.held.Load(); h != nil && h.left.Load() >= 0 {
		n += e.start - h.now()
	}
	return n
}

// lookLocked brings the demand up to now. What it was counts less the longer it is ago.
func (e *entry) lookLocked(now Moment, ahead time.Duration) {
	dt := now.since(e.looked)
	if dt < ahead/64 {
		return
	}
	used := e.usedLocked() - e.counted
	e.counted += used
	if used > 0 {
		e.unused = 0
	} else {
		e.unused++
	}
	fresh := float64(used+int64(e.missed.Swap(0))) / dt.Seconds()
	e.rate += (fresh - e.rate) * -math.Expm1(-2*float64(dt)/float64(ahead))
	e.looked = now
}

// takeHomeLocked lets go of what is held, and returns what is unspent.
func (e *entry) takeHomeLocked() int64 {
	h := e.held.Load()
	left := h.close()
	if h != nil {
		e.spent += e.start - left
		e.held.Store(nil)
	}
	return left
}

// flyLocked begins an ask: home units go, what else is here stays. One without an answer is
// repeated, with the same home.
func (e *entry) flyLocked(a *stint.Loan, n *Node, home int64, want float64, now Moment) {
	e.flight = make(chan struct{})
	if !e.unanswered {
		e.seq = n.seq.Add(1)
		e.asked, e.home, e.unanswered = now, clip(float64(home)), true
	}
	*a = stint.Loan{
		Node: n.id, Seq: e.seq, Epoch: e.epoch, Kept: clip(float64(e.held.Load().report())), Home: e.home,
		Want: clip(want), KeptAfterLoss: e.take.KeptAfterLoss,
	}
}

// clip returns n as what fits into a loan.
func clip(n float64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// landLocked ends an ask that was answered: with what was lent, or that there is nothing.
func (e *entry) landLocked(a *stint.Loan, d *stint.Decision, ahead time.Duration, now Moment) {
	e.unanswered, e.recall = false, a.Recall
	kept := min(e.takeHomeLocked(), int64(a.Held))
	if a.Began != e.epoch {
		kept, e.epoch = 0, a.Began
	}
	if has := kept + int64(a.Grant); has > 0 {
		e.start = has
		e.held.Store(heldOf(has, e.asked.Add(a.Lease), d, now))
	}
	e.quiet.Store(nil)
	switch {
	case a.Empty > 0:
		e.quiet.Store(&quiet{
			until: e.asked.Add(min(a.Empty, maxQuiet)), cost: 1, empty: a.Empty,
			limit: e.limit.Load(), said: *d, answered: now,
		})
	case a.Want > 0 && kept == 0 && a.Grant == 0 || a.Recall:
		e.strict = now.Add(ahead / 4)
	}
	e.grant = max(a.Grant, e.grant/2)
}

// endLocked lets those go on who wait for the answer.
func (e *entry) endLocked(answered bool) {
	e.failed = !answered
	close(e.flight)
	e.flight = nil
}

// deny remembers that the store refused a take for longer than it is worth asking again.
func (e *entry) deny(t *stint.Take, d *stint.Decision, asked, now Moment) {
	if d.Allowed || d.Degraded || d.RetryAfter == stint.Never || t.Cost == 0 {
		return
	}
	if q := e.quiet.Load(); q != nil && !now.reached(q.until) {
		return
	}
	e.quiet.Store(&quiet{
		until: asked.Add(min(d.RetryAfter, maxQuiet)), cost: t.Cost, empty: d.RetryAfter,
		limit: t.Limit, said: *d, answered: now,
	})
}
