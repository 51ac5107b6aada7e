package whatif

import (
	"context"
	"errors"
	"slices"
	"time"

	"stint"
	"stint/internal/text"
	"stint/internal/transaction"
	"stint/rule"
)

// MaxColumns is the maximum number of columns: the five algorithms, and the limits as written.
const MaxColumns = 6

// Written is the column of the rules as written.
const Written = 0

// Columns is the store of a replay by rules. It decides each call in several columns with one
// look-up of each key: in the column Written by the rules as written, which the caller sees, and in
// the others by each limit under another algorithm. A Settle or Refund of the caller applies only
// to the first column; in the others, reservations are kept until the method Settle is called.
// Columns is used by one goroutine.
type Columns struct {
	names  *text.Interner
	kinds  map[*stint.Limit]*Kind
	of     []*Kind // limit of each key
	stored StateTable

	// For each take of the current call:
	ids    []uint32
	first  []int    // the first take of the same key; a take with Independent set is always its own first
	costs  []uint64 // for each first take, the cost of all takes of its key, without sources of borrowing
	logged []bool   // whether the key had a log before the call
	last   int      // the last first take with a cost and without Independent
	groups []group  // set if some takes borrow

	// Primary are the takes of the last call that are not sources of borrowing. Denied has for each
	// take one bit for each column that denied it; Delay is the longest delay in each column.
	Primary  []int
	Denied   []uint8
	Delay    [MaxColumns]time.Duration
	reserved []reservation
}

// Kind is a limit in all columns.
type Kind struct {
	Limits  []*stint.Limit // one for each column
	Answers *rule.Answers  // what the limit charges; nil: every request
	Shadow  bool           // it delays nobody
}

// reservation is a take of a limit that counts responses, in a column other than the first.
type reservation struct {
	column   int
	id       uint32
	cost     uint64
	decision stint.Decision
}

var _ stint.Store = (*Columns)(nil)

// NewColumns returns a store with a number of columns.
func NewColumns(columns int) *Columns {
	return &Columns{names: text.NewInterner(), kinds: map[*stint.Limit]*Kind{}, stored: NewStateTable(columns)}
}

// Set sets what a limit is in all columns. A limit without it is the same in all.
func (s *Columns) Set(limit *stint.Limit, k *Kind) { s.kinds[limit] = k }

var errOps = errors.New("whatif: Columns supports only Ask, Settle, Refund, and Force of penalties")

// Decide decides the call in every column. The results are those of the first column.
func (s *Columns) Decide(_ context.Context, call *stint.Call) error {
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
	borrows := len(s.Primary) < len(call.Takes)
	if borrows {
		if err := s.plan(call); err != nil {
			return err
		}
	}
	for column := range s.stored.columns {
		if borrows {
			s.decideGroups(call, column)
		} else {
			s.decide(call, column)
		}
	}
	for i, id := range s.ids {
		if !s.logged[i] && !slices.Contains(s.ids[:i], id) && HasLog(s.stored.Of(id)) {
			s.stored.Gained(id)
		}
		s.stored.Forget(call.At, s.limitsOf)
	}
	return nil
}

// end executes a call of Refunds and Settles, or one that counts denied tries of penalties.
func (s *Columns) end(call *stint.Call) error {
	for i := range call.Takes {
		t := &call.Takes[i]
		id := s.id(t)
		limit, st := s.of[id].Limits[Written], &s.stored.Of(id)[Written]
		penalty := limit.Algorithm() == stint.Penalty
		switch {
		case t.Op == stint.Refund:
			call.Results[i] = limit.Refund(st, call.At, uint64(t.Cost), t.Undo)
		case t.Op == stint.Settle:
			call.Results[i] = limit.Settle(st, call.At, uint64(t.Cost), t.Undo)
		case penalty && t.Op == stint.Force:
			call.Results[i] = limit.Force(st, call.At, uint64(t.Cost))
		case penalty && t.Op == stint.Ask: // after a Force
			call.Results[i] = limit.Test(st, call.At, uint64(t.Cost))
		default:
			return errOps
		}
	}
	return nil
}

// gather finds the keys of the takes, and adds the costs of all takes of a key to the first one.
// Takes with Independent set are decided separately.
func (s *Columns) gather(takes []stint.Take) error {
	s.ids, s.first, s.costs, s.logged, s.Primary = s.ids[:0], s.first[:0], s.costs[:0], s.logged[:0], s.Primary[:0]
	s.Denied, s.Delay, s.reserved = s.Denied[:0], [MaxColumns]time.Duration{}, s.reserved[:0]
	s.last = -1
	sources := 0 // number of following takes that are sources
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
		s.costs, s.Denied = append(s.costs, 0), append(s.Denied, 0)
		s.logged = append(s.logged, HasLog(s.stored.Of(id)))
		if sources > 0 {
			sources--
			continue
		}
		s.Primary = append(s.Primary, i)
		s.costs[first] += uint64(t.Cost)
		if !t.Independent && t.Cost > 0 {
			s.last = max(s.last, first)
		}
		sources = int(t.Borrows)
	}
	return nil
}

// id returns the number of a take's key; it allocates the states of a new key.
func (s *Columns) id(t *stint.Take) uint32 {
	id := s.names.NumberOf(string(t.Key))
	if int(id) == len(s.of) {
		k := s.kinds[t.Limit]
		if k == nil { // not the limit of a rule, but one of the limiter itself
			k = &Kind{Limits: slices.Repeat([]*stint.Limit{t.Limit}, s.stored.columns)}
			s.kinds[t.Limit] = k
		}
		s.of = append(s.of, k)
		s.stored.Add()
	}
	return id
}

// decide decides the call in one column. Takes without Independent pass together or are not
// charged. All but the last are first only tested; if they would pass, the last is taken
// immediately, which completes most calls.
func (s *Columns) decide(call *stint.Call, column int) {
	pass, taken := true, -1
	for i := range call.Takes {
		k, st := s.at(i, column)
		limit := k.Limits[column]
		switch {
		case column == Written && transaction.DeniedBeside(call, i):
			d := limit.Test(st, call.At, 0)
			transaction.Uncharged(&call.Takes[i], &d)
			s.answer(call, i, column, d)
		case call.Takes[i].Independent:
			d := limit.Take(st, call.At, s.costs[i])
			s.answer(call, i, column, d)
			s.reserve(k, i, column, &d)
		case s.first[i] != i: // included in an earlier take
			s.copyAnswer(call, i, column)
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
		limit := k.Limits[column]
		switch denied := s.Denied[i]>>column&1 != 0; {
		case call.Takes[i].Independent || i == taken:
		case s.first[i] != i:
			s.copyAnswer(call, i, column)
		case s.costs[i] == 0: // a peek
		case pass || denied || limit.ForStores().Overdraws(): // a limit may also count denied requests
			d := limit.Take(st, call.At, s.costs[i])
			s.answer(call, i, column, d)
			s.reserve(k, i, column, &d)
		}
	}
}

// reserve records a take that settle may have to give back.
func (s *Columns) reserve(k *Kind, take, column int, d *stint.Decision) {
	if k.Answers != nil && column != Written && d.Allowed {
		s.keep(take, column, d)
	}
}

func (s *Columns) keep(take, column int, d *stint.Decision) {
	if cost := s.costs[take]; cost > 0 {
		s.reserved = append(s.reserved, reservation{column, s.ids[take], cost, *d})
	}
}

// Settle gives back the reservations, in all columns but the first, for which the limit does not
// charge the status of the answer. statuses are the statuses in each column.
func (s *Columns) Settle(at stint.Instant, statuses *[MaxColumns]int) {
	for i := range s.reserved {
		r := &s.reserved[i]
		if k := s.of[r.id]; !k.Answers.Charges(statuses[r.column]) {
			k.Limits[r.column].Refund(&s.stored.Of(r.id)[r.column], at, r.cost, &r.decision)
		}
	}
	s.reserved = s.reserved[:0]
}

// at returns the limit of a take, and its state in a column.
func (s *Columns) at(take, column int) (*Kind, *stint.State) {
	id := s.ids[take]
	return s.of[id], &s.stored.Of(id)[column]
}

// answer stores the decision about a take and its delay.
func (s *Columns) answer(call *stint.Call, take, column int, d stint.Decision) {
	if d.Delay > s.Delay[column] && !s.of[s.ids[take]].Shadow {
		s.Delay[column] = d.Delay
	}
	s.note(call, take, column, d)
}

// note stores the decision about a take.
func (s *Columns) note(call *stint.Call, take, column int, d stint.Decision) {
	if d.Allowed {
		s.Denied[take] &^= 1 << column
	} else {
		s.Denied[take] |= 1 << column
	}
	if column == Written {
		call.Results[take] = d
	}
}

// copyAnswer copies the decision from the first take of the same key.
func (s *Columns) copyAnswer(call *stint.Call, take, column int) {
	first := s.first[take]
	s.Denied[take] = s.Denied[take]&^(1<<column) | s.Denied[first]&(1<<column)
	if column == Written {
		call.Results[take] = call.Results[first]
	}
}

func (s *Columns) limitsOf(key uint32) []*stint.Limit { return s.of[key].Limits }
