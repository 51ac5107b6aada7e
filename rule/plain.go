package rule

import (
	"time"

	"stint"
)

// Plain returns the only rule that entries match, if it is plain: a request of these entries needs nothing but one
// take from [Rule.Stored], and has its decision. No list can decide before it, nothing else is asked or counted, and nobody gets
// other numbers. It returns nil if this is not so, and for a nil domain.
func (d *Domain) Plain(entries []Entry) *Rule {
	if d == nil || len(d.lists) > 0 {
		return nil
	}
	rules := d.Match(entries)
	if len(rules) != 1 || !rules[0].isPlain() {
		return nil
	}
	return rules[0]
}

// isPlain reports whether the rule is plain where no other one matches.
func (r *Rule) isPlain() bool {
	return r.Limit.Algorithm() != stint.Unlimited && r.Tally == nil && r.Answers == nil && r.Elastic == nil && r.Penalty == nil &&
		r.Usage == nil && r.Candidate == nil && r.Plan == nil && r.Soft == 0 && !r.Shadow && !r.Quota && len(r.Replaces) == 0 && len(r.ShardBy) == 0 &&
		r.Coordination == Strict
}

// Refill returns how fast the limit gets room: lot units each every. lot 1 means that it does so steadily, and 0 that nothing is
// known. sharp means that the limit keeps nothing for who comes a millisecond late.
func (r *Rule) Refill() (lot uint32, every time.Duration, sharp bool) {
	s := r.Stored.Spec()
	switch {
	case r.Elastic != nil || s.Requests == 0:
		return 0, 0, false // the room of others is not known
	case s.Algorithm == stint.TokenBucket && !s.Step:
		every := s.Per / time.Duration(s.Requests)
		const late, slow = 5 * time.Millisecond, 100 * time.Millisecond // what late timers take is spare, or hardly counts
		return 1, every, every < slow && time.Duration(s.Burst-1)*every < late
	}
	return s.Requests, s.Per, false
}
