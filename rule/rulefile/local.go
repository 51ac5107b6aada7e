package rulefile

import (
	"fmt"

	"stint"
	"stint/internal/limits"
	"stint/rule"
)

// agree sets the terms of a rule. A leased rule with `local_share` divides its limit between the
// processes and the store.
func (l *limit) agree(r *rule.Rule) {
	r.Terms = &stint.Terms{Domain: r.Domain, Rule: r.Name, Limit: r.Stored, Coordination: r.Mode(), KeptAfterLoss: r.KeptAfterLoss, AskPeers: r.AskPeers, Keys: int(l.cache), Durable: l.durable}
	l.agreeUsage(r)
	if l.elastic != nil {
		r.Terms.Coordination = rule.Strict // the pool is not known yet
	}
	if r.Terms.Coordination != rule.Leased || r.Local == nil {
		return
	}
	own, rest := limits.Divide(r.Stored, r.Local, r.Nodes)
	if own == nil {
		l.at.Fail(fmt.Sprintf("local_share: %v of a leased limit leaves nothing for the store", l.share), "write a smaller share, such as 10%")
		return
	}
	r.Local, r.Terms.Own, r.Terms.Rest = own, own, rest
}

// localLimit returns the limit of one process while the store fails; nil for other policies.
func (l *limit) localLimit() *stint.Limit {
	if l.failure != rule.Local {
		return nil
	}
	return rule.LocalLimit(l.limit, l.share, l.nodes)
}
