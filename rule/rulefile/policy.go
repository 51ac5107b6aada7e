package rulefile

import (
	"time"

	"stint/internal/limits"
	"stint/internal/strictyaml"
	"stint/rule"
)

// policy is the words about failure and coordination, of a limit or as defaults of a file.
type policy struct {
	failure     rule.Failure
	share       rule.Ratio
	nodes       uint32
	saysShare   bool // here or in the defaults, valid or not
	saysNodes   bool
	failureSaid *strictyaml.Value
	shareSaid   *strictyaml.Value
	nodesSaid   *strictyaml.Value

	coordination rule.Coordination
	kept         bool // after_loss: kept
	saysLoss     bool // after_loss stands here or in the defaults
	cache        uint32
	coordinated  *strictyaml.Value
	afterLoss    *strictyaml.Value
	cacheSaid    *strictyaml.Value
	asks         bool // gossip: ask
	asksSaid     *strictyaml.Value

	taken map[string]bool // words of the file that some limit inherits
}

// words adds the readers of a policy's words.
func (p *policy) words(words strictyaml.Words) {
	words["on_store_failure"] = func(v strictyaml.Value) {
		p.failureSaid = &v
		if i, ok := v.OneOf("allow", "deny", "local"); ok {
			p.failure = rule.Failure(i)
		}
	}
	words["local_share"] = func(v strictyaml.Value) { p.shareSaid, p.saysShare, p.share = &v, true, ratio(v, rule.Whole) }
	words["nodes"] = func(v strictyaml.Value) {
		p.nodesSaid, p.saysNodes = &v, true
		p.nodes = v.Count32("0 nodes share nothing", "write how many nodes there may be at most")
	}
	words["coordination"] = func(v strictyaml.Value) {
		if v.Text() == "sticky" {
			v.Fail("coordination: sticky is for the load balancer to do", "write strict, with --store memory, and see docs/coordination.md")
			return
		}
		i, _ := v.OneOf("strict", "leased", "eventual", "gossip")
		p.coordinated, p.coordination = &v, rule.Coordination(i)
	}
	words["gossip"] = func(v strictyaml.Value) {
		i, _ := v.OneOf("tell", "ask")
		p.asksSaid, p.asks = &v, i == 1
	}
	words["cache"] = func(v strictyaml.Value) {
		p.cacheSaid = &v
		p.cache = v.Count32("no keys are kept", "write how many keys a node may keep at most, such as 100000, or leave it out for as many as fit into memory")
	}
	words["after_loss"] = func(v strictyaml.Value) {
		p.afterLoss, p.saysLoss = &v, true
		if !renamed(v, map[string]string{"empty": "used_up", "full": "kept"}) {
			i, _ := v.OneOf("used_up", "kept")
			p.kept = i == 1
		}
	}
}

// inherit returns the policy that a limit has before its own words are read.
func (p *policy) inherit() policy {
	return policy{failure: p.failure, share: p.share, nodes: p.nodes, saysShare: p.saysShare, saysNodes: p.saysNodes, coordination: p.coordination, kept: p.kept, saysLoss: p.saysLoss, cache: p.cache, asks: p.asks}
}

// longestUsedUp is how long a key may take to be whole again to count as used up after the store
// lost its data where a rule does not say.
const longestUsedUp = time.Minute

// keptAfterLoss reports whether the keys of a leased limit are kept after the store lost its data.
// The default of after_loss is used_up for limits that are full again within a minute, so that
// nothing passes beyond them, and kept for longer ones, which a restart would otherwise deny for
// hours, and for those that are too small to be lent: the store decides them as in strict mode, and
// would have to compare the epoch in each take.
func (l *limit) keptAfterLoss() bool {
	switch {
	case l.coordination != rule.Leased || l.unlimited:
		return false
	case l.saysLoss:
		return l.kept
	}
	return limits.RefillTime(l.stored) > longestUsedUp || !l.stored.ForStores().Lends()
}

// fits reports words of a limit that do not belong to its mode. In a file's defaults they are
// allowed.
func (p *policy) fits() {
	if p.coordination != rule.Leased && p.afterLoss != nil {
		p.afterLoss.Fail("after_loss stands without coordination: leased", "add coordination: leased, or leave it out")
	}
	if p.coordination != rule.Eventual && p.cacheSaid != nil {
		p.cacheSaid.Fail("cache stands without coordination: eventual", "add coordination: eventual, or leave it out")
	}
	if p.coordination != rule.Gossip && p.asksSaid != nil {
		p.asksSaid.Fail("gossip stands without coordination: gossip", "add coordination: gossip, or leave it out")
	}
	switch {
	case p.failure == rule.Local:
	case p.shareSaid != nil:
		p.shareSaid.Fail("local_share and nodes stand without on_store_failure: local", "add on_store_failure: local, or leave them out")
	case p.nodesSaid != nil && p.coordination < rule.Eventual: // the bound of these modes depends on nodes
		p.nodesSaid.Fail("nodes stands without on_store_failure: local", "add on_store_failure: local, or coordination: eventual or gossip, or leave it out")
	}
}

// serve records which defaults of the file a limit inherits.
func (p *policy) serve(l *limit) {
	takes := map[string]bool{
		"coordination": !l.unlimited, "gossip": l.coordination == rule.Gossip, "cache": l.coordination == rule.Eventual, "after_loss": l.coordination == rule.Leased,
		"on_store_failure": !l.unlimited, "local_share": l.failure == rule.Local, "nodes": l.failure == rule.Local || l.coordination >= rule.Eventual,
	}
	for word := range takes {
		_, own := l.said[word]
		p.taken[word] = p.taken[word] || takes[word] && !own
	}
}

// idle warns about defaults that no limit of the file inherits.
func (f *fileCompiler) idle() {
	p := &f.defaults
	for _, v := range []*strictyaml.Value{p.coordinated, p.asksSaid, p.cacheSaid, p.afterLoss, p.failureSaid, p.shareSaid, p.nodesSaid} {
		if v != nil && !p.taken[v.Word()] {
			f.warn("unused-default", v.Line(), "", v.Word()+" stands at the file, and no limit of the file takes it",
				"leave it out, or check the words of the limits: each that says "+v.Word()+" itself, or has no use for it, does not take it")
		}
	}
}

// check reports `on_store_failure: local` without its numbers.
func (p *policy) check() {
	if p.failure == rule.Local && p.failureSaid != nil && !(p.saysShare && p.saysNodes) {
		p.failureSaid.Fail("on_store_failure: local does not say how much may pass", "add local_share (such as 10%) and nodes, the most nodes there may be")
	}
}

// ratio reads a percentage such as 10% or 0.5%, at most `most`.
func ratio(v strictyaml.Value, most rule.Ratio) rule.Ratio {
	return rule.Ratio(v.Percentage(int64(most)))
}
