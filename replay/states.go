package replay

import (
	"context"
	"errors"
	"slices"
	"time"

	"stint"
	"stint/internal/text"
	"stint/rule"
)

// states is the store of a replay by rules. It decides each call in several columns
// at once, for one look-up of each key: as the rules stand, which is what the caller
// sees, and with each limit under other algorithms. What is settled or given back
// after a call concerns the first column alone; for the others it keeps what they
// reserved until settle is called. It belongs to one goroutine.
type states struct {
	names *text.Interner
	kinds map[*stint.Limit]*kind
	of    []*kind // of each key
	shelf shelf

	// Of the call that is decided, for each of its takes:
	ids    []uint32
	first  []int    // the first take of the same key that is not apart either
	costs  []uint64 // at that one, the sum of all but those that others lean on
	logged []bool   // whether the key had a log before
	last   int      // the last take that is not apart and has a cost
	leads  []int    // the takes that others do not lean on
	groups []group  // where some borrow from others

	// denied and delay are the answers of the last call: a bit for each column that
	// denied the take, and the longest delay of each column.
	denied   []uint8
	delay    [maxColumns]time.Duration
	reserved []reservation
}

// kind is what is known of a limit.
type kind struct {
	limits  []*stint.Limit // in each column
	answers *rule.Answers
	shadow  bool
}

// reservation is a take of a limit that counts answers, in a column other than that
// of the rules as they stand.
type reservation struct {
	column   int
	id       uint32
	cost     uint64
	decision stint.Decision
}

var _ stint.Store = (*states)(nil)

func newStates(columns int) *states {
	return &states{names: text.NewInterner(), kinds: map[*stint.Limit]*kind{}, shelf: shelf{columns: columns}}
}

var errOps = errors.New("replay: its store answers asks, or settles and gives back, and nothing else")

// Decide decides the call in every column. The results are those of the first.
func (s *states) Decide(_ context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	call.SizeResults()
	if len(call.Takes) > 0 && call.Takes[0].Op != stint.Ask {
		return s.end(call)
	}
	if err := s.gather(call.Takes); err != nil {
		return err
	}
	borrows := len(s.leads) < len(call.Takes)
	if borrows {
		if err := s.plan(call); err != nil {
			return err
		}
	}
	for column := range s.shelf.columns {
		if borrows {
			s.decideGroups(call, column)
		} else {
			s.decide(call, column)
		}
	}
	for i, id := range s.ids {
		if !s.logged[i] && !slices.Contains(s.ids[:i], id) && hasLog(s.shelf.of(id)) {
			s.shelf.gained(id)
		}
		s.shelf.forget(call.At, s.limitsOf)
	}
	return nil
}

// end does what comes after a decision.
func (s *states) end(call *stint.Call) error {
	for i := range call.Takes {
		t := &call.Takes[i]
		id := s.id(t)
		limit, st := s.of[id].limits[ruleColumn], &s.shelf.of(id)[ruleColumn]
		switch t.Op {
		case stint.Refund:
			call.Results[i] = limit.Refund(st, call.At, uint64(t.Cost), t.Undo)
		case stint.Settle:
			call.Results[i] = limit.Settle(st, call.At, uint64(t.Cost), t.Undo)
		default:
			return errOps
		}
	}
	return nil
}

// gather finds the keys of the takes, and gives the first take of each the cost of
// all of them. Takes that stand apart are decided by themselves.
func (s *states) gather(takes []stint.Take) error {
	s.ids, s.first, s.costs, s.logged, s.leads = s.ids[:0], s.first[:0], s.costs[:0], s.logged[:0], s.leads[:0]
	s.denied, s.delay, s.reserved = s.denied[:0], [maxColumns]time.Duration{}, s.reserved[:0]
	s.last = -1
	leaned := 0 // so many of the next ones
	for i := range takes {
		t := &takes[i]
		if t.Op != stint.Ask {
			return errOps
		}
		id := s.id(t)
		first := i
		if !t.Independent {
			for j := range i {
				if s.ids[j] == id && !takes[j].Independent {
					first = j
					break
				}
			}
		}
		s.ids, s.first = append(s.ids, id), append(s.first, first)
		s.costs, s.denied = append(s.costs, 0), append(s.denied, 0)
		s.logged = append(s.logged, hasLog(s.shelf.of(id)))
		if leaned > 0 {
			leaned--
			continue
		}
		s.leads = append(s.leads, i)
		s.costs[first] += uint64(t.Cost)
		if !t.Independent && t.Cost > 0 {
			s.last = max(s.last, first)
		}
		leaned = int(t.Borrows)
	}
	return nil
}

// id returns the number of the key of a take, with room for its states.
func (s *states) id(t *stint.Take) uint32 {
	id := s.names.NumberOf(string(t.Key))
	if int(id) == len(s.of) {
		k := s.kinds[t.Limit]
		if k == nil { // no limit of a rule: the limiter's own
			k = &kind{limits: slices.Repeat([]*stint.Limit{t.Limit}, s.shelf.columns)}
			s.kinds[t.Limit] = k
		}
		s.of = append(s.of, k)
		s.shelf.add()
	}
	return id
}

// decide decides the call in one column: what is not apart passes as a whole or is
// not charged. All but the last are only tested at first; if they would pass, the
// last is taken at once, which for most calls is all there is to do.
func (s *states) decide(call *stint.Call, column int) {
	pass, taken := true, -1
	for i := range call.Takes {
		k, st := s.at(i, column)
		limit := k.limits[column]
		switch {
		case call.Takes[i].Independent:
			d := limit.Take(st, call.At, s.costs[i])
			s.answer(call, i, column, d)
			s.reserve(k, i, column, &d)
		case s.first[i] != i: // counted with an earlier one
		case i == s.last && pass:
			d := limit.Take(st, call.At, s.costs[i])
			s.answer(call, i, column, d)
			s.reserve(k, i, column, &d)
			pass, taken = d.Allowed, i
		default:
			d := limit.Test(st, call.At, s.costs[i])
			s.answer(call, i, column, d)
			pass = pass && d.Allowed
		}
	}
	for i := range call.Takes {
		k, st := s.at(i, column)
		limit := k.limits[column]
		switch denied := s.denied[i]>>column&1 != 0; {
		case call.Takes[i].Independent || i == taken:
		case s.first[i] != i:
			s.copyAnswer(call, i, column)
		case s.costs[i] == 0: // only looked
		case pass || denied || limit.ForStores().Overdraws(): // a limit may remember what was denied
			d := limit.Take(st, call.At, s.costs[i])
			s.answer(call, i, column, d)
			s.reserve(k, i, column, &d)
		}
	}
}

// reserve keeps in mind what may have to be given back.
func (s *states) reserve(k *kind, take, column int, d *stint.Decision) {
	if k.answers != nil && column != ruleColumn && d.Allowed {
		s.keep(take, column, d)
	}
}

func (s *states) keep(take, column int, d *stint.Decision) {
	if cost := s.costs[take]; cost > 0 {
		s.reserved = append(s.reserved, reservation{column, s.ids[take], cost, *d})
	}
}

// settle gives back what the columns other than the first have reserved for an
// answer that their limits do not charge. statuses are the answers in each column.
func (s *states) settle(at stint.Instant, statuses *[maxColumns]int) {
	for i := range s.reserved {
		r := &s.reserved[i]
		if k := s.of[r.id]; !k.answers.Charges(statuses[r.column]) {
			k.limits[r.column].Refund(&s.shelf.of(r.id)[r.column], at, r.cost, &r.decision)
		}
	}
	s.reserved = s.reserved[:0]
}

// at returns what is known of the limit of a take, and its state in a column.
func (s *states) at(take, column int) (*kind, *stint.State) {
	id := s.ids[take]
	return s.of[id], &s.shelf.of(id)[column]
}

// answer answers a take for which the request waits.
func (s *states) answer(call *stint.Call, take, column int, d stint.Decision) {
	if d.Delay > s.delay[column] && !s.of[s.ids[take]].shadow {
		s.delay[column] = d.Delay
	}
	s.note(call, take, column, d)
}

// note answers a take.
func (s *states) note(call *stint.Call, take, column int, d stint.Decision) {
	if d.Allowed {
		s.denied[take] &^= 1 << column
	} else {
		s.denied[take] |= 1 << column
	}
	if column == ruleColumn {
		call.Results[take] = d
	}
}

// copyAnswer answers a take as the first one of the same key.
func (s *states) copyAnswer(call *stint.Call, take, column int) {
	first := s.first[take]
	s.denied[take] = s.denied[take]&^(1<<column) | s.denied[first]&(1<<column)
	if column == ruleColumn {
		call.Results[take] = call.Results[first]
	}
}

func (s *states) limitsOf(key uint32) []*stint.Limit { return s.of[key].limits }
