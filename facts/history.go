package facts

import (
	"slices"
	"time"

	"stint/facts/sketch"
)

// numbers returns the counts as they are stored, and countsFrom reads them.
func (c Counts) numbers() sketch.Numbers {
	return sketch.Numbers{c.Allowed, c.Denied, c.Over, c.Degraded, c.Looks}
}

func countsFrom(n sketch.Numbers) Counts {
	return Counts{Allowed: n[0], Denied: n[1], Over: n[2], Degraded: n[3], Looks: n[4]}
}

// recordLocked ends a minute in the history of all rules.
func (f *Facts) recordLocked(minute time.Time) {
	for _, r := range f.board.Load().all() {
		r.recordLocked(minute, f.counted)
	}
}

// recordLocked adds what was counted since the last time to the history of the rule.
func (r *ruleFacts) recordLocked(minute time.Time, counted func(domain, rule string) Counts) {
	counts := r.countsLocked(counted)
	r.history.Record(minute, counts.minus(r.recorded).numbers())
	r.recorded = counts
}

// History returns the history of a rule on this node, or of several together; step is Minute or
// TenMinutes. Its last point is not over. Points without decisions are left out.
func (f *Facts) History(of Of, step time.Duration) History {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := History{Domain: of.Domain, Rule: of.Rule, Step: step, Points: []Point{}, Marks: []Mark{}}
	keep := sketch.MinutesKept
	if step != Minute {
		h.Step, keep = TenMinutes, sketch.TensKept
	}
	from := f.now().Add(-keep).Truncate(h.Step)
	at := map[int64]Counts{}
	for _, r := range f.board.Load().find(of) {
		add := func(from time.Time, n sketch.Numbers) {
			sum, more := at[from.Unix()], countsFrom(n)
			sum.add(&more)
			at[from.Unix()] = sum
		}
		r.history.Each(from, h.Step != Minute, add)
		now := r.countsLocked(f.counted).minus(r.recorded)
		add(f.minute.Truncate(h.Step), now.numbers())
	}
	for unix, c := range at {
		if c != (Counts{}) {
			h.Points = append(h.Points, Point{time.Unix(unix, 0).UTC(), c})
		}
	}
	slices.SortFunc(h.Points, func(a, b Point) int { return a.At.Compare(b.At) })
	for _, m := range f.marks {
		if !m.At.Before(from) {
			h.Marks = append(h.Marks, m)
		}
	}
	return h
}
