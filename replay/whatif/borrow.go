package whatif

import (
	"slices"

	"stint"
	"stint/internal/transaction"
)

// group is a set of takes that are decided together, in each column under the limits of that
// column. Its keys are numbers, see states.id.
type group = transaction.Plan[uint32]

// plan builds the groups of a call in which takes borrow from other limits.
func (s *Columns) plan(call *stint.Call) error {
	s.groups = s.groups[:0]
	for take := range transaction.Groups(call) {
		n := len(s.groups)
		s.groups = slices.Grow(s.groups, 1)[:n+1]
		s.groups[n].Name = s.id
		if err := s.groups[n].Collect(call, take); err != nil {
			return err
		}
	}
	return nil
}

// decideGroups decides in one column a call in which takes borrow from other limits.
func (s *Columns) decideGroups(call *stint.Call, column int) {
	for n := range s.groups {
		g := &s.groups[n]
		for i := range g.Parts {
			p := &g.Parts[i]
			p.Set(s.of[p.Name].Limits[column], s.stored.Of(p.Name)[column], call.At)
		}
		for i := range g.Takes() { // a candidate that is not charged is the only take of its group
			if column == Written && transaction.DeniedBeside(call, i) {
				g.Parts[0].Cost = 0
			}
		}
		g.Decide()
		for i := range g.Parts {
			p := &g.Parts[i]
			s.stored.Of(p.Name)[column] = p.Record.State
		}
		for i, n := range g.Takes() {
			s.answerPart(call, i, column, &g.Parts[n])
			if column == Written && transaction.DeniedBeside(call, i) {
				transaction.Uncharged(&call.Takes[i], &call.Results[i])
			}
		}
	}
}

// answerPart answers the takes of a part. Only the first take delays the request and makes a
// reservation.
func (s *Columns) answerPart(call *stint.Call, take, column int, p *transaction.Part[uint32]) {
	if p.Take != &call.Takes[take] {
		s.note(call, take, column, p.Result)
		return
	}
	if p.Charged {
		s.reserve(s.of[p.Name], take, column, &p.Result)
	}
	if p.Asked {
		s.answer(call, take, column, p.Result)
	} else {
		s.note(call, take, column, p.Result) // a source never delays the request
	}
}
