package servers

import (
	"fmt"

	"stint"
)

// group is takes that are decided as one: all that are not apart, or one that is with
// those it leans on.
type group struct {
	takes []stint.Take
	of    []int // which takes of the call they are
	parts []part
	part  []int // of each take
}

// part is what a group asks of one key.
type part struct {
	take   stint.Take // the first of the key, by itself
	lends  uint8      // its Borrows
	server int
	cost   uint64 // of all takes that are not leaned on
	asked  bool   // by one of them
	held   bool   // others lean on it
	leans  []lean

	seen  stint.Decision // what was found when it was looked at
	fits  bool
	extra uint64 // what those ask of it who do not fit their own limits
	owed  uint64 // what those owe it who do
	over  bool   // it does not fit, and passes by what it leans on

	result stint.Decision
}

// lean says on which part of the group another leans, with how many units.
type lean struct {
	on   int
	cost uint64
}

// gather makes groups of takes, that of all which are not apart first.
func (s *Store) gather(takes []stint.Take) ([]*group, error) {
	groups := []*group{{}}
	for i := 0; i < len(takes); i++ {
		g := groups[0]
		if takes[i].Independent {
			g = &group{}
			groups = append(groups, g)
		}
		leader, err := s.join(g, i, &takes[i], false)
		if err != nil {
			return nil, err
		}
		for range takes[i].Borrows {
			i++
			on, err := s.join(g, i, &takes[i], true)
			if err != nil {
				return nil, err
			}
			g.parts[leader].leans = append(g.parts[leader].leans, lean{on, uint64(takes[i].Cost)})
		}
	}
	return groups, nil
}

// join adds take number i of the call to the group, and returns its part.
func (s *Store) join(g *group, i int, t *stint.Take, leaned bool) (int, error) {
	n := 0
	for n < len(g.parts) && (g.parts[n].take.Key != t.Key || g.parts[n].take.Limit.Algorithm() != t.Limit.Algorithm()) {
		n++
	}
	if n == len(g.parts) {
		g.parts = append(g.parts, part{take: *t, lends: t.Borrows, server: s.server(t)})
		g.parts[n].take.Independent, g.parts[n].take.Borrows = false, 0
	} else if p := &g.parts[n]; p.take.Op != stint.Ask || t.Op != stint.Ask || p.lends != t.Borrows || !p.take.Limit.Same(t.Limit) {
		return 0, fmt.Errorf("take %d: %w", i, stint.ErrMixedLimits)
	}
	g.takes, g.of, g.part = append(g.takes, *t), append(g.of, i), append(g.part, n)
	p := &g.parts[n]
	if leaned {
		p.held = true
		return n, nil
	}
	if !p.asked { // what leans on it asks nothing in its name
		p.take.OnFailure, p.take.Local = t.OnFailure, t.Local
	}
	p.cost += uint64(t.Cost)
	p.asked = true
	return n, nil
}

// weigh says what of a group that was looked at may pass, and whether all of it.
func (g *group) weigh() (pass bool) {
	for i := range g.parts {
		p := &g.parts[i]
		if p.take.Op != stint.Ask || p.held {
			continue
		}
		p.fits = fits(p.take.Limit, &p.seen, p.cost)
		if p.seen.Degraded {
			continue
		}
		for _, l := range p.leans {
			if on := &g.parts[l.on]; p.fits {
				on.owed += l.cost
			} else {
				on.extra += l.cost
			}
		}
	}
	for i := range g.parts {
		if p := &g.parts[i]; p.held {
			p.fits = fits(p.take.Limit, &p.seen, p.cost+p.extra)
		}
	}
	pass = true
	for i := range g.parts {
		p := &g.parts[i]
		if p.take.Op != stint.Ask {
			continue
		}
		p.over = p.leaning() && !p.fits && g.room(p)
		pass = pass && (p.fits || p.over || p.held && !p.asked)
	}
	return pass
}

// leaning says whether a part leans on others: while its own server is away it falls
// back alone.
func (p *part) leaning() bool { return len(p.leans) > 0 && !p.seen.Degraded }

// room says whether all that a part leans on fits.
func (g *group) room(p *part) bool {
	for _, l := range p.leans {
		if !g.parts[l.on].fits {
			return false
		}
	}
	return true
}

// fits says whether a take that costs so many units would pass of a key that a peek
// found like this. The distance from the last take of a log follows from when it will
// be forgotten.
func fits(limit *stint.Limit, seen *stint.Decision, cost uint64) bool {
	if cost == 0 {
		return true
	}
	if cost > uint64(seen.Remaining) {
		return false
	}
	spec := limit.Spec()
	return spec.MinInterval == 0 || seen.Degraded || seen.ResetAfter <= spec.Per-spec.MinInterval
}
