package line

import (
	"cmp"
	"slices"
	"time"
)

// Stats are the numbers of the lines of a rule. All but Waiting only grow.
type Stats struct {
	Domain, Rule string
	Waiting      int64            // requests that wait now
	Entered      uint64           // requests that got a place
	Left         [outcomes]uint64 // requests that left, by outcome
	Refused      [outcomes]uint64 // requests that got no place, by outcome
	Waited       time.Duration    // how long those that left waited, in all
}

// Outcomes returns all outcomes, which are the indexes of Left and Refused.
func Outcomes() []Outcome {
	return []Outcome{Passed, Moved, Denied, Full, Late, Gone, Drained, Undecided}
}

// statsLocked returns the numbers of the rule of a line.
func (l *Lines) statsLocked(id ID) *Stats {
	name := ruleName{id.Domain, id.Rule}
	s := l.rules[name]
	if s == nil {
		s = &Stats{Domain: id.Domain, Rule: id.Rule}
		l.rules[name] = s
	}
	return s
}

// Stats returns the numbers of all rules that ever had a line, ordered by domain and rule.
func (l *Lines) Stats() []Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Stats, 0, len(l.rules))
	for _, s := range l.rules {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Stats) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule))
	})
	return all
}

// Changed tells that the rules changed at a time. The first of each line takes then, because what is known
// of its limit may be wrong now. Changed drops the numbers of rules that keep refuses, unless a request waits
// for them.
func (l *Lines) Changed(now time.Time, keep func(domain, rule string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.lines {
		one.rate, one.tryAt = Rate{}, now
		one.wake()
	}
	for name, s := range l.rules {
		if s.Waiting == 0 && !keep(name.domain, name.rule) {
			delete(l.rules, name)
		}
	}
}
