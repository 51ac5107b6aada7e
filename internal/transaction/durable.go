package transaction

import (
	"errors"
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
