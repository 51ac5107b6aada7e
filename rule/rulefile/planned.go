package rulefile

import (
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/internal/strictyaml"
	"stint/rule"
	"stint/rule/plan"
	"stint/rule/rulefile/hints"
)

// This file reads rules whose limits come from plans. Each limit of a plan is read like any rate_limit,
// after the words that stand beside `plan:` in the rule.

// besidePlan are the words that may stand beside `plan:`. They apply to the limits of all plans; those of
// one algorithm apply to limits with that algorithm.
var besidePlan = []string{
	"name", "replaces", "headers", "denial", "excess", "count", "statuses", "shard_by", "penalty", "overdraw", "usage", "notify", "durable",
	"on_store_failure", "local_share", "nodes", "coordination", "after_loss", "cache", "gossip",
}

// outer is a rate_limit with `plan:`, the words of which apply to limits of plans.
type outer struct {
	at     strictyaml.Value
	plan   strictyaml.Value
	said   map[string]bool // its words
	served map[string]bool // those that some limit takes
}

// checkPlans reads every limit of the plans by itself, so that also those that no rule asks for are
// checked.
func (c *compiler) checkPlans() {
	for _, p := range c.plans.All() {
		for _, name := range p.Limits() {
			for _, v := range p.Limit(name) {
				l := limit{at: v, said: map[string]strictyaml.Value{}, inPlan: true}
				l.read()
			}
		}
	}
	c.plans.Check()
}

// planned reads a rate_limit with `plan:`, number element of count in its list, and adds a rule for each
// place of the plans' limits.
func (f *fileCompiler) planned(d *descriptor, n *rule.Node, v strictyaml.Value, element, count int) {
	before := f.refused
	f.refused = true // until all is read
	o := &outer{at: v, said: map[string]bool{}, served: map[string]bool{}}
	plans := &f.compiler.plans
	if !f.readOuter(o) {
		return
	}
	if plans.Default == "" {
		v.Fail("plan: without default_plan", "add default_plan: with the name of a plan, or deny, at the top of the file: clients without a plan get it")
		return
	}
	name := o.plan.Text()
	places, has := plans.Places(name)
	if len(places) == 0 {
		o.plan.Fail(fmt.Sprintf("no plan has limits named %q", name), plans.Hint(name))
		return
	}
	refused := false
	for i, p := range places {
		if len(places) == 1 {
			i = -1
		}
		refused = !f.place(d, n, o, p, has, [3]int{element, count, i}) || refused
	}
	for _, word := range sortedKeys(o.said) {
		if !o.served[word] && !refused {
			v.Fail(fmt.Sprintf("%s beside plan: %s, and no plan has a limit that takes it", word, name), "leave it out, or choose another algorithm in the plans")
			refused = true
		}
	}
	f.warnPlans(n, o, has)
	f.refused = before || refused
}

// readOuter reads the words beside `plan:`, without their values.
func (f *fileCompiler) readOuter(o *outer) bool {
	words := strictyaml.Words{"plan": func(v strictyaml.Value) { o.plan = v }}
	known := new(limit).words()
	for _, word := range besidePlan {
		if known[word] != nil {
			words[word] = func(strictyaml.Value) { o.said[word] = true }
		}
	}
	return o.at.Object("a rate_limit with plan:", words, hints.BesidePlan) && o.plan.NonEmpty() != ""
}

// place adds the rule of one place. numbers are the element and the count of rate_limits of the node, and
// the number of the place, -1 if there is one alone.
func (f *fileCompiler) place(d *descriptor, n *rule.Node, o *outer, p *plan.Place, has map[string]bool, numbers [3]int) bool {
	variants := map[string]*rule.Variant{}
	byDefault := f.compiler.plans.Default
	if byDefault == plan.Deny {
		byDefault = ""
	}
	planned := &rule.Planned{Limit: o.plan.Text(), Place: p.ID, First: numbers[2] <= 0, Default: byDefault, Has: has, Rules: variants}
	var first *limit
	var made *rule.Rule
	for _, one := range p.Limits {
		l := f.newLimit(one.At)
		l.inPlan, l.outer = true, o
		if !l.read() {
			return false
		}
		if first == nil {
			first = l
		} else if !l.unlimited && !first.unlimited && l.spec.Algorithm != first.spec.Algorithm {
			one.At.Fail(fmt.Sprintf("plan %s: %s %s is a %s, and in plan %s it is a %s", one.Plan.Name, o.plan.Text(), p.ID, l.spec.Algorithm, p.Limits[0].Plan.Name, first.spec.Algorithm),
				"a client keeps its use when its plan changes, so limits at one place need one algorithm; give this one a name of its own, or change the algorithm")
			return false
		}
		r := f.ruleOf(l, d, n, o.at)
		r.Plan, r.OfPlan, r.Position = planned, one.Plan.Name, numbers[0]
		if made == nil {
			made = r
			r.Name = f.name(r, numbers[0], numbers[1], placeText(p, numbers[2]))
		}
		r.Name = made.Name
		f.complete(l, r, made)
		variants[one.Plan.Name] = f.variant(l, r)
	}
	f.add(first, made, n)
	return true
}

// placeText is the end of the name of a rule at a place; "" if there is one place.
func placeText(p *plan.Place, number int) string {
	if number < 0 {
		return ""
	}
	return "#" + p.ID
}

// variant returns a rule with the copies of it that begin their months on other days.
func (f *fileCompiler) variant(l *limit, r *rule.Rule) *rule.Variant {
	v := &rule.Variant{Rule: r}
	if !l.subscription {
		return v
	}
	if v.Zone = l.zone; v.Zone == nil {
		v.Zone = time.UTC
	}
	v.ByDay = make([]*rule.Rule, 32)
	v.ByDay[1] = r
	for day := uint8(2); day <= 31; day++ {
		other := *l
		other.spec.Anchor = day
		if l.elastic != nil {
			elastic := *l.elastic
			other.elastic = &elastic
		}
		if !other.derive() {
			continue
		}
		copied := *r
		other.numbers(&copied)
		f.complete(&other, &copied, r)
		v.ByDay[day] = &copied
	}
	return v
}

// warnPlans warns of plans that deny all requests of a rule.
func (f *fileCompiler) warnPlans(n *rule.Node, o *outer, has map[string]bool) {
	for _, p := range f.compiler.plans.All() {
		if !has[p.Name] {
			f.warn("plan-without-limit", o.at.Line(), f.pathName(n.Path), fmt.Sprintf("plan %s has no limits %s, so its clients are denied here", p.Name, o.plan.Text()),
				"add them to the plan; unlimited: true lets all pass")
		}
	}
}

// takeOuter reads the words beside `plan:` that the limit takes: those of its algorithm. It refuses those
// that the limit says itself.
func (l *limit) takeOuter(words strictyaml.Words) {
	if l.outer == nil {
		return
	}
	text := ""
	if v, ok := l.at.Get("algorithm"); ok {
		text = v.Text()
	}
	algorithm, _ := stint.ParseAlgorithm(text) // an unknown one is refused later; none is a fixed_window
	free, unlimited := l.at.Get("unlimited")
	unlimited = unlimited && free.Bool()
	taken := strictyaml.Words{"plan": func(strictyaml.Value) {}}
	for _, word := range besidePlan {
		read := words[word]
		taken[word] = func(v strictyaml.Value) {
			_, own := l.at.Get(word)
			switch {
			case own && word != "name":
				l.fail(v, fmt.Sprintf("%s stands beside plan: and in the plan", word), "keep one of the two")
			case unlimited && !slices.Contains([]string{"name", "replaces", "headers"}, word):
			case wordsOf[word] == nil || slices.Contains(wordsOf[word], algorithm):
				l.outer.served[word] = true
				read(v)
			}
		}
	}
	l.outer.at.Object("a rate_limit with plan:", taken)
}
