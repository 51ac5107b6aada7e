package eventual

import (
	"cmp"
	"slices"

	"stint"
	"stint/internal/transaction"
)

// part is the takes of one key of a call that are decided as one, with the sum of their costs.
type part struct {
	entry *entry
	take  *stint.Take
	cost  uint64
	fits  bool
}

// group is a call of several takes.
type group struct {
	call    *stint.Call
	parts   []part
	index   []int    // for each take its part
	entries []*entry // in the order in which they are locked
	read    *Request // keys to read first
	wait    <-chan struct{}
}

// release clears a group for reuse.
func (n *Node) release(g *group) {
	clear(g.parts)
	clear(g.entries)
	*g = group{parts: g.parts[:0], index: g.index[:0], entries: g.entries[:0]}
	n.groups.Put(g)
}

// beginSeveral is Begin for calls of several takes, or none. If the node cannot decide all of
// them, the store decides the call.
func (n *Node) beginSeveral(call *stint.Call, now stint.Instant, patient bool) (*Request, <-chan struct{}) {
	g := n.groups.Get().(*group)
	defer n.release(g)
	for {
		g.call, g.parts, g.index, g.entries, g.read, g.wait = call, g.parts[:0], g.index[:0], g.entries[:0], nil, nil
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
		if !g.add(e, t) {
			return false
		}
	}
	return len(g.call.Takes) > 0
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

// add adds a take. It returns false if the store must decide, because takes of the key cannot be
// added up.
func (g *group) add(e *entry, t *stint.Take) bool {
	at := slices.IndexFunc(g.parts, func(p part) bool { return p.entry == e && !p.take.Independent && !t.Independent })
	if at < 0 {
		at = len(g.parts)
		g.parts = append(g.parts, part{entry: e, take: t})
	} else if first := g.parts[at].take; first.Op != stint.Ask || t.Op != stint.Ask || !first.Limit.ForStores().Same(t.Limit) {
		return false
	}
	g.parts[at].cost += uint64(t.Cost)
	g.index = append(g.index, at)
	if !slices.Contains(g.entries, e) {
		g.entries = append(g.entries, e)
	}
	return true
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

// decideLocked decides all takes.
func (g *group) decideLocked(now stint.Instant) {
	pass := true
	g.narrowLocked(now)
	for i := range g.parts {
		p := &g.parts[i]
		at := p.entry.timeLocked(now)
		p.entry.changeLimitLocked(p.take.Limit, at)
		p.fits = !p.take.Op.Asks()
		if !p.fits {
			d := p.take.Limit.Test(&p.entry.state, at, p.cost)
			p.fits = d.Allowed
		}
		pass = pass && (p.fits || p.take.Independent)
	}
	for independent := range 2 { // the dependent takes first
		for i := range g.parts {
			p := &g.parts[i]
			if p.take.Independent != (independent == 1) {
				continue
			}
			var d stint.Decision
			if pass || !p.fits || p.take.Independent {
				p.entry.decideLocked(p.take, p.cost, now, &d)
			} else {
				d = p.take.Limit.Test(&p.entry.state, p.entry.timeLocked(now), 0)
			}
			for k, of := range g.index {
				if of == i {
					g.call.Results[k] = d
				}
			}
		}
	}
}

// narrowLocked sets the cost of all AskAtMost takes that are not Independent to one number: the most
// units that all of them can take, and 1 if one of them can take none.
func (g *group) narrowLocked(now stint.Instant) {
	units, atMost := uint64(stint.MaxCost), func(p *part) bool {
		return p.take.Op == stint.AskAtMost && p.cost > 0 && !p.take.Independent
	}
	for i := range g.parts {
		if p := &g.parts[i]; atMost(p) {
			at := p.entry.timeLocked(now)
			p.entry.changeLimitLocked(p.take.Limit, at)
			d := p.entry.limit.Test(&p.entry.state, at, 1)
			units = min(units, d.AtMost(p.cost))
		}
	}
	for i := range g.parts {
		if p := &g.parts[i]; atMost(p) {
			p.cost = units
		}
	}
}
