package redis

import (
	"stint"
	"stint/internal/transaction"
	"stint/store/redis/script"
)

// A candidate (see [stint.Handling]) is a group of one take. If it depends on the first group of the
// batch, decide.lua decides it after that, in the same call.

// setCandidate sets the fields of a group that say for which part it stands.
func (b *batch) setCandidate(c *stint.Call, g *group) {
	if g.take == transaction.AllOrNone || !c.Takes[g.take].Candidate() {
		return
	}
	g.candidate = true
	of := int(c.Takes[g.take].InsteadOf())
	if of > 0 && of <= len(c.Takes) && len(b.groups) > 0 && b.groups[0].take == transaction.AllOrNone && c.Takes[g.take].Op.Asks() {
		g.instead = b.partOf[of-1] + 1
	}
}

// follow returns the argument follows of decide.lua for a group. If the server has decided the first group
// before, it is known by now whether a candidate is charged.
func (b *batch) follow(g *group, follows bool) int64 {
	first := &b.groups[0]
	switch {
	case g.instead == 0:
		return script.Flag(follows)
	case !first.done && !first.undecodable:
		return int64(1 + g.instead)
	}
	for i := range b.parts[first.first:first.end] {
		if p := &b.parts[first.first+i]; first.undecodable || i != g.instead-1 && p.op.Asks() && p.asked && !p.result.Allowed {
			p := &b.parts[g.first]
			p.op, p.cost = stint.Ask, 0
		}
	}
	return script.Flag(follows)
}
