package replay

import (
	"time"

	"stint"
)

// leaning is what a call needs beside the rest of states if some of its takes lean on
// others: what is done as one, and each key of it in the column being decided. It does what
// internal/transaction does, which knows one limit for each take: here each column has its own,
// and what is done as one is found once for all of them.
type leaning struct {
	order []int // the takes, those of a group one behind the other
	ends  []int // where in order each group ends
	parts []part
}

// part is a key of the group being decided, at the place of its first take.
type part struct {
	held   bool   // others lean on it
	asked  bool   // somebody asks it for itself
	cost   uint64 // what is asked of it
	owed   uint64 // what is debited unasked
	result stint.Decision
}

// group finds what is done as one: the takes that are not apart, and each that is,
// with those it leans on.
func (s *states) group(takes []stint.Take) {
	s.order, s.ends, s.parts = s.order[:0], s.ends[:0], s.parts[:0]
	for i := range takes {
		s.parts = append(s.parts, part{})
		if !takes[i].Independent {
			s.order = append(s.order, i)
		}
	}
	s.ends = append(s.ends, len(s.order))
	for _, lead := range s.leads {
		if !takes[lead].Independent {
			continue
		}
		for i := range 1 + int(takes[lead].Borrows) {
			s.order = append(s.order, lead+i)
		}
		s.ends = append(s.ends, len(s.order))
	}
}

// lean decides in one column a call of which some takes lean on others.
func (s *states) lean(call *stint.Call, column int) {
	from := 0
	for _, end := range s.ends {
		s.together(call, column, s.order[from:end])
		from = end
	}
}

// together decides a group, all or none: all ask their own limits, those that do
// not fit ask what they lean on, and then everything is charged, or nothing.
func (s *states) together(call *stint.Call, column int, group []int) {
	s.ask(call, column, group)
	pass := true
	for _, i := range group {
		if s.first[i] != i {
			continue
		}
		p := &s.parts[i]
		if call.Takes[i].Borrows > 0 && !p.result.Allowed {
			s.room(call.Takes, i, group)
		}
		pass = pass && (!p.asked || p.result.Allowed)
	}
	for _, i := range group {
		if s.first[i] == i {
			s.conclude(call, i, column, pass)
		}
	}
	for _, i := range group {
		if s.first[i] != i {
			s.copyAnswer(call, i, column)
		}
	}
}

// ask asks the limits of the group, first those on which nobody leans.
func (s *states) ask(call *stint.Call, column int, group []int) {
	for _, i := range group {
		s.parts[i] = part{cost: s.costs[i]}
	}
	leaned := 0
	for _, i := range group {
		p := &s.parts[s.first[i]]
		if leaned > 0 {
			leaned--
			p.held = true
			continue
		}
		p.asked = true
		leaned = int(call.Takes[i].Borrows)
	}
	for _, held := range []bool{false, true} {
		for _, i := range group {
			if p := &s.parts[i]; s.first[i] == i && p.held == held {
				k, st := s.at(i, column)
				p.result = k.limits[column].Test(st, call.At, p.cost)
			}
		}
		if held {
			return
		}
		for _, i := range group {
			fits := s.parts[s.first[i]].result.Allowed
			for on := i + 1; on <= i+int(call.Takes[i].Borrows); on++ {
				if p := &s.parts[s.first[on]]; fits {
					p.owed += uint64(call.Takes[on].Cost)
				} else {
					p.cost += uint64(call.Takes[on].Cost)
				}
			}
		}
	}
}

// room lets a key that does not fit its limit pass if all that it leans on have room.
func (s *states) room(takes []stint.Take, leader int, group []int) {
	p := &s.parts[leader]
	over, retry := true, time.Duration(0)
	for _, i := range group {
		if s.first[i] != leader {
			continue
		}
		for on := i + 1; on <= i+int(takes[i].Borrows); on++ {
			if d := &s.parts[s.first[on]].result; !d.Allowed {
				over, retry = false, max(retry, d.RetryAfter)
			}
		}
	}
	p.result.Allowed, p.result.Over = over, over
	p.result.RetryAfter = min(p.result.RetryAfter, retry)
}

// conclude charges a key if the group passes, and answers.
func (s *states) conclude(call *stint.Call, i, column int, pass bool) {
	p := &s.parts[i]
	k, st := s.at(i, column)
	limit, tested := k.limits[column], p.result
	switch {
	case tested.Over:
		p.result = limit.Test(st, call.At, 0)
		p.result.Over = pass
	case p.held && tested.Allowed && (!pass || p.cost == 0):
		p.result = limit.Test(st, call.At, 0)
	case p.held || pass || !tested.Allowed || limit.Spec().Overdraw:
		p.result = limit.Take(st, call.At, p.cost)
		s.reserve(k, i, column, &p.result)
	default:
		p.result = limit.Test(st, call.At, 0)
	}
	if call.Takes[i].Borrows > 0 && !p.result.Allowed {
		p.result.RetryAfter = min(p.result.RetryAfter, tested.RetryAfter)
	}
	if pass && p.owed > 0 {
		p.result = limit.DebitCapped(st, call.At, p.owed)
	}
	delay := s.delay[column]
	s.answer(call, i, column, p.result)
	if !p.asked {
		s.delay[column] = delay // nobody waits for it
	}
}
