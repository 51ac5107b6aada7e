package eventual

import (
	"cmp"
	"slices"

	"stint"
	"stint/internal/transaction"
)

// group is a call of several takes. Its Plan has those that are not Independent.
type group struct {
	transaction.Plan[transaction.ID]
	call    *stint.Call
	takes   []*entry // for each take its entry
	parts   []*entry // for each part of the plan its entry
	entries []*entry // in the order in which they are locked
	read    *Request // keys to read first
	wait    <-chan struct{}
}

// newGroup returns an empty group.
func newGroup() *group { return &group{Plan: transaction.Plan[transaction.ID]{Name: transaction.IDOf}} }

// reset empties a group.
func (g *group) reset() {
	g.Release()
	clear(g.takes)
	clear(g.parts)
	clear(g.entries)
	g.call, g.takes, g.parts, g.entries, g.read, g.wait = nil, g.takes[:0], g.parts[:0], g.entries[:0], nil, nil
}

// release empties a group for reuse.
func (n *Node) release(g *group) {
	g.reset()
	n.groups.Put(g)
}

// beginSeveral is Begin for calls of several takes, or none. If the node cannot decide all of
// them, the store decides the call.
func (n *Node) beginSeveral(call *stint.Call, now stint.Instant, patient bool) (*Request, <-chan struct{}) {
	g := n.groups.Get().(*group)
	defer n.release(g)
	for ; ; g.reset() {
		g.call = call
		ok := n.gather(g, now, patient)
		switch {
		case !ok && g.read != nil:
			n.dropReads(g.read)
			return n.forward(call, now), nil
		case !ok:
			return n.forward(call, now), nil
		case g.read != nil:
			n.count.reads.Add(1)
			return g.read, nil
		case g.wait != nil:
			return nil, g.wait
		case n.decideGroup(g, now):
			return nil, nil
		}
		if held := n.paused.Load(); held != nil {
			return nil, *held
		}
	}
}

// gather finds the entries of a call. It returns false if the store must decide the call.
func (n *Node) gather(g *group, now stint.Instant, patient bool) bool {
	for i := range g.call.Takes {
		t := &g.call.Takes[i]
		if !decidable(g.call, t) {
			return false
		}
		fp := n.keys.fingerprint(t)
		e, mine := n.keys.find(fp, t), false
		if e == nil && patient {
			e, mine = n.addEntry(fp, t, now)
		}
		if e == nil || n.away(e, now) && !mine {
			return false
		}
		if mine {
			g.addPeek(e, t, now)
			continue
		}
		e.mu.Lock()
		reading := e.reading
		e.mu.Unlock()
		if reading != nil && !patient {
			return false
		}
		if reading != nil {
			g.wait = reading
		}
		g.takes = append(g.takes, e)
		if !slices.Contains(g.entries, e) {
			g.entries = append(g.entries, e)
		}
	}
	// The store returns the error about takes that may not be in one call.
	return len(g.call.Takes) > 0 && g.Collect(g.call, transaction.AllOrNone) == nil
}

// addPeek adds a key to those to read first.
func (g *group) addPeek(e *entry, t *stint.Take, now stint.Instant) {
	if g.read == nil {
		g.read = &Request{Call: new(stint.Call), begun: now, kind: read}
	}
	look := *t
	transaction.Peek(&look)
	look.Independent = true
	g.read.Call.Takes = append(g.read.Call.Takes, look)
	g.read.items = append(g.read.items, item{entry: e, limit: t.Limit})
}

// dropReads removes the entries of reads that will not happen.
func (n *Node) dropReads(req *Request) {
	for i := range req.items {
		e := req.items[i].entry
		e.mu.Lock()
		e.dead = true
		close(e.reading)
		e.reading = nil
		e.mu.Unlock()
		n.remove(e)
	}
}

// decideGroup decides all takes of a group at one moment. It returns false if an entry was
// removed or decisions were paused.
func (n *Node) decideGroup(g *group, now stint.Instant) bool {
	slices.SortFunc(g.entries, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.fp, b.fp), cmp.Compare(a.key, b.key)) })
	for i, e := range g.entries {
		e.mu.Lock()
		if e.dead || e.reading != nil || n.paused.Load() != nil {
			for _, locked := range g.entries[:i+1] {
				locked.mu.Unlock()
			}
			return false
		}
	}
	g.decideLocked(now)
	for _, e := range g.entries {
		n.enqueue(e)
		e.mu.Unlock()
	}
	return true
}

// decideLocked decides all takes: first those that all pass or none is charged, then the others.
func (g *group) decideLocked(now stint.Instant) {
	g.parts = slices.Grow(g.parts[:0], len(g.Parts))[:len(g.Parts)]
	for take, part := range g.Takes() {
		g.parts[part] = g.takes[take]
	}
	for i := range g.Parts {
		p, e := &g.Parts[i], g.parts[i]
		at := e.timeLocked(now)
		e.changeLimitLocked(p.Take.Limit, at)
		p.Set(e.limit, e.state, at)
	}
	pass := g.Decide()
	for i := range g.Parts {
		g.parts[i].chargedLocked(&g.Parts[i], pass)
	}
	g.Answer(g.call)
	for i := range g.call.Takes {
		t := &g.call.Takes[i]
		switch {
		case !t.Independent:
		case t.InsteadOf() > 0 && transaction.DeniedBeside(g.call, i):
			look := *t
			transaction.Peek(&look)
			g.takes[i].decideLocked(&look, now, &g.call.Results[i])
			transaction.Uncharged(t, &g.call.Results[i])
		default:
			g.takes[i].decideLocked(t, now, &g.call.Results[i])
		}
	}
}

// chargedLocked takes over the state of a decided part, and counts what it changed. pass reports
// whether its group passed.
func (e *entry) chargedLocked(p *transaction.Part[transaction.ID], pass bool) {
	switch {
	case p.Take.Op == stint.AskAtMost:
		e.countLocked(int64(p.Result.Charged), p.At)
	case p.Take.Op == stint.Ask && p.Charged && p.Result.Allowed, p.Take.Op == stint.Force && pass:
		e.countLocked(int64(p.Cost), p.At)
	case p.Take.Op == stint.Refund && pass:
		e.countLocked(-e.limit.ForStores().Freed(&e.state, &p.Record.State, p.At), p.At)
	}
	e.state, e.used = p.Record.State, true
}
