package replay

import (
	"slices"

	"stint"
	"stint/internal/transaction"
)

// group is takes that are decided as one, in each column under the limits of that column. Keys
// are numbers, see states.id.
type group = transaction.Plan[uint32]

// plan collects the groups of a call in which takes borrow from others.
func (s *states) plan(call *stint.Call) error {
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

// decideGroups decides a call in one column in which takes borrow from others.
func (s *states) decideGroups(call *stint.Call, column int) {
	for n := range s.groups {
		g := &s.groups[n]
		for i := range g.Parts {
			p := &g.Parts[i]
			p.Set(s.of[p.Name].limits[column], s.shelf.of(p.Name)[column], call.At)
		}
		g.Decide()
		for i := range g.Parts {
			p := &g.Parts[i]
			s.shelf.of(p.Name)[column] = p.Record.State
		}
		for i, n := range g.Takes() {
			s.answerPart(call, i, column, &g.Parts[n])
		}
	}
}

// answerPart answers a take of a part. Only the first of its takes waits and reserves.
func (s *states) answerPart(call *stint.Call, take, column int, p *transaction.Part[uint32]) {
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
		s.note(call, take, column, p.Result) // nobody waits for a source
	}
}
