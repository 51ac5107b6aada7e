package replay

import (
	"context"
	"errors"
	"slices"
	"time"

	"stint"
)

// states is the store of a replay by rules. It decides each call in several columns
// at once, for one look-up of each key: as the rules stand, which is what the caller
// sees, and with each limit under other algorithms. It answers asks only, and
// belongs to one goroutine.
type states struct {
	names    *names
	variants map[*stint.Limit][]*stint.Limit // what a limit is in each column
	limits   [][]*stint.Limit                // of each key
	shelf    shelf

	ids    []uint32 // of the takes of the call
	costs  []uint64 // of the takes of the call: the sum for its key at the first, 0 at the others
	logged []bool   // whether the key of each take had a log before
	last   int      // the last take that is not apart and has a cost

	// denied and delay are the answers of the last call: a bit for each column that
	// denied the take, and the longest delay of each column.
	denied []uint8
	delay  [maxColumns]time.Duration
}

var _ stint.Store = (*states)(nil)

func newStates(columns int) *states {
	return &states{
		names: newNames(), variants: map[*stint.Limit][]*stint.Limit{},
		shelf: shelf{columns: columns},
	}
}

var errAsksOnly = errors.New("replay: its store only answers asks, of one unit or more")

// Decide decides the call in every column. The results are those of the first.
func (s *states) Decide(_ context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	s.ids, s.costs, s.denied = s.ids[:0], s.costs[:0], s.denied[:0]
	s.delay = [maxColumns]time.Duration{}
	call.Results = call.Results[:0]
	for i := range call.Takes {
		t := &call.Takes[i]
		if t.Op != stint.Ask || t.Cost == 0 {
			return errAsksOnly
		}
		s.ids = append(s.ids, s.id(t))
		s.costs = append(s.costs, uint64(t.Cost))
		s.denied = append(s.denied, 0)
		call.Results = append(call.Results, stint.Decision{})
	}
	s.sum(call.Takes)
	s.logged = s.logged[:0]
	for _, id := range s.ids {
		s.logged = append(s.logged, hasLog(s.shelf.of(id)))
	}
	for column := range s.shelf.columns {
		s.decide(call, column)
	}
	for i, id := range s.ids {
		if !s.logged[i] && !slices.Contains(s.ids[:i], id) && hasLog(s.shelf.of(id)) {
			s.shelf.gained(id)
		}
		s.shelf.forget(call.At, s.limitsOf)
	}
	return nil
}

// id returns the number of the key of a take, with room for its states.
func (s *states) id(t *stint.Take) uint32 {
	id := s.names.lookup(string(t.Key))
	if int(id) == len(s.limits) {
		s.limits = append(s.limits, s.variants[t.Limit])
		s.shelf.add()
	}
	return id
}

// sum gives the first take of each key the cost of all of them. Takes that stand
// apart are decided by themselves.
func (s *states) sum(takes []stint.Take) {
	s.last = -1
	for i := range takes {
		for j := range i {
			if s.ids[i] == s.ids[j] && !takes[i].Apart && !takes[j].Apart {
				s.costs[j] += s.costs[i]
				s.costs[i] = 0
				break
			}
		}
		if !takes[i].Apart && s.costs[i] > 0 {
			s.last = i
		}
	}
}

// decide decides the call in one column: what is not apart passes as a whole or is
// not charged. All but the last are only tested at first; if they would pass, the
// last is taken at once, which for most calls is all there is to do.
func (s *states) decide(call *stint.Call, column int) {
	pass, taken := true, -1
	for i := range call.Takes {
		limit, st := s.at(i, column)
		switch {
		case call.Takes[i].Apart:
			s.answer(call, i, column, limit.Take(st, call.At, s.costs[i]))
		case s.costs[i] == 0: // counted with an earlier one
		case i == s.last && pass:
			d := limit.Take(st, call.At, s.costs[i])
			s.answer(call, i, column, d)
			pass, taken = d.Allowed, i
		default:
			d := limit.Test(st, call.At, s.costs[i])
			s.answer(call, i, column, d)
			pass = pass && d.Allowed
		}
	}
	for i := range call.Takes {
		limit, st := s.at(i, column)
		switch denied := s.denied[i]>>column&1 != 0; {
		case call.Takes[i].Apart || i == taken:
		case s.costs[i] == 0:
			s.copyAnswer(call, i, column)
		case pass || denied || limit.Spec().Overdraw: // a limit may remember what was denied
			s.answer(call, i, column, limit.Take(st, call.At, s.costs[i]))
		}
	}
}

// at returns the limit and the state of a take in a column.
func (s *states) at(take, column int) (*stint.Limit, *stint.State) {
	id := s.ids[take]
	return s.limits[id][column], &s.shelf.of(id)[column]
}

func (s *states) answer(call *stint.Call, take, column int, d stint.Decision) {
	if d.Allowed {
		s.denied[take] &^= 1 << column
	} else {
		s.denied[take] |= 1 << column
	}
	s.delay[column] = max(s.delay[column], d.Delay)
	if column == 0 {
		call.Results[take] = d
	}
}

// copyAnswer answers a take as the first one of the same key.
func (s *states) copyAnswer(call *stint.Call, take, column int) {
	for first := range take {
		if s.ids[first] == s.ids[take] && !call.Takes[first].Apart {
			s.denied[take] |= s.denied[first] & (1 << column)
			if column == 0 {
				call.Results[take] = call.Results[first]
			}
			return
		}
	}
}

func (s *states) limitsOf(key uint32) []*stint.Limit { return s.limits[key] }
