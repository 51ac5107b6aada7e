package transaction

import (
	"errors"
	"fmt"
	"strings"

	"stint"
)

// ErrLost means that counts of durable takes were lost, so that these takes follow their failure policies
// until the period of the loss ends, or somebody accepts the loss. Errors of stores wrap it beside a
// stint.CorruptState.
var ErrLost = errors.New("counts of durable rules were lost")

// Durable reports whether the take must be on disk before it is answered, see stint.Terms.Durable.
func Durable(t *stint.Take) bool {
	terms := t.Terms()
	return terms != nil && terms.Durable
}

// LossEnds returns when a key of a limit no longer depends on what was counted before a time: the end of its
// period then, or the time at which a key is untouched that was used up then.
func LossEnds(l *stint.Limit, lost stint.Instant) stint.Instant {
	if l.Algorithm() == stint.Unlimited || l.Capacity() == 0 {
		return lost
	}
	var st stint.State
	l.Force(&st, lost, uint64(l.Capacity()))
	return lost.Add(l.Test(&st, lost, 0).ResetAfter)
}

// RuleName returns DOMAIN/NAME of a rule. Names that were not given begin with the domain.
func RuleName(domain, name string) string {
	if strings.HasPrefix(name, domain+"/") {
		return name
	}
	return domain + "/" + name
}

// Loss is that counts of durable takes were lost. The zero Loss is none.
type Loss struct {
	At    stint.Instant            `json:"at"`              // when it was noticed; 0: nothing was lost
	All   stint.Instant            `json:"all,omitempty"`   // the last loss that was accepted for all rules
	Rules map[string]stint.Instant `json:"rules,omitempty"` // the last loss that was accepted for a rule, by DOMAIN/NAME
}

// Accepted reports whether a rule's takes follow their failure policies no longer.
func (l *Loss) Accepted(rule string) bool { return max(l.All, l.Rules[rule]) >= l.At }

// Accept accepts the loss for a rule, "" for all.
func (l *Loss) Accept(rule string) {
	if rule == "" {
		l.All = l.At
		return
	}
	accepted := map[string]stint.Instant{rule: l.At}
	for name, at := range l.Rules {
		if name != rule {
			accepted[name] = at
		}
	}
	l.Rules = accepted
}

// Refuses reports whether a take must follow its failure policy at a time.
func (l *Loss) Refuses(t *stint.Take, now stint.Instant) bool {
	return l.At > 0 && Durable(t) && t.Op.Asks() && !l.Accepted(RuleName(t.Terms().Domain, t.Terms().Rule)) && now < LossEnds(t.Limit, l.At)
}

// LostTakes returns the error about takes of a call that must follow their failure policies.
func LostTakes(takes []int) error {
	return fmt.Errorf("%w: %w", ErrLost, &stint.CorruptState{Takes: takes})
}
