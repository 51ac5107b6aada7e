package rule

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"stint"
)

// Plan is a plan of a table: a set of limits for a group of clients.
type Plan struct {
	Name   string
	Limits []string // names of its limits, in the order of the file
	Stored bool     // it is a record, and not part of a rule file

	// File and Line are its place.
	File string
	Line int
}

// Planned says where the limit of a rule with `plan:` comes from. Such a `rate_limit` is one rule for
// each place: the limits of several plans at one place share the state of a client, so a client keeps
// its use when its plan changes. The rule itself has the limit of one of the plans, that of the default
// plan where it has one. It is immutable.
type Planned struct {
	// Limit is the name of the limits in plans.
	Limit string

	// Place is the name of the limit at this place, or its position in the lists, from 1.
	Place string

	// First is set for the first place of a `rate_limit`, which denies clients whose plan has no limits
	// of this name.
	First bool

	// Default is the plan of clients that have none; "": they are denied.
	Default string

	// Has has the plans that have limits of this name, at any place; Rules has the rules of those that
	// have one at this place. Callers must not change them.
	Has   map[string]bool
	Rules map[string]*Variant
}

// Variant is a rule with the limit of one plan.
type Variant struct {
	*Rule

	// Zone is the time zone of `anchor: subscription`, nil for other limits. ByDay then has the rule
	// with a month that begins on each day from 1; ByDay[0] is nil.
	Zone  *time.Location
	ByDay []*Rule
}

// all returns the rule and its copies.
func (v *Variant) all() []*Rule {
	all := []*Rule{v.Rule}
	for _, r := range v.ByDay {
		if r != nil && r != v.Rule {
			all = append(all, r)
		}
	}
	return all
}

// For returns the rule for clients of a plan; "" is the default plan. subscribed is when the client's
// subscription began, the zero time if that is unknown. r is nil if the plan has no limit at this place.
// ok is false if the plan has no limits of this name at all, or is unknown: the client is denied.
func (p *Planned) For(plan string, subscribed time.Time) (r *Rule, ok bool) {
	if plan == "" {
		plan = p.Default
	}
	v := p.Rules[plan]
	switch {
	case v == nil:
		return nil, p.Has[plan]
	case v.Zone != nil && !subscribed.IsZero():
		return v.ByDay[subscribed.In(v.Zone).Day()], true
	}
	return v.Rule, true
}

// PeriodEnd returns the end of the current period of a plan for a client; "" is the default plan. It is the longest
// period of the plan's fixed windows that rules ask for, and of those of one length the one that ends last. Windows that
// begin with the key's first request do not count. ok is false if there is none.
func (t *Table) PeriodEnd(plan string, subscribed, now time.Time) (end time.Time, ok bool) {
	var longest, last stint.Instant
	for _, r := range t.rules {
		if r.Plan == nil {
			continue
		}
		of, _ := r.Plan.For(plan, subscribed)
		if of == nil || of.Limit.Algorithm() != stint.FixedWindow || of.Limit.Spec().FromFirst {
			continue
		}
		from, to := of.Limit.ForStores().Window(new(stint.State), stint.At(now))
		if to-from > longest || to-from == longest && to > last {
			longest, last = to-from, to
		}
	}
	return last.Time(), longest > 0
}

// Plans returns the names of the plans that have a limit at this place, sorted, the default plan first.
func (p *Planned) Plans() []string {
	names := make([]string, 0, len(p.Rules))
	for name := range p.Rules {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if (a == p.Default) != (b == p.Default) {
			if a == p.Default {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}

// Subject returns the entry of a descriptor whose plan counts: the last one.
func Subject(entries []Entry) (e Entry, ok bool) {
	if len(entries) == 0 {
		return e, false
	}
	return entries[len(entries)-1], true
}

// Plans returns the plans of the table, sorted by name, the default plan first, and the name of the
// default plan; "" if clients without a plan are denied, or if there are no plans.
func (t *Table) Plans() (all []Plan, byDefault string) { return t.plans, t.defaultPlan }

// Planned reports whether any rule takes its limit from plans.
func (t *Table) Planned() bool {
	return slices.ContainsFunc(t.rules, func(r *Rule) bool { return r.Plan != nil })
}

// variants calls f with the rules of all plans but those in Table.Rules.
func (t *Table) variants(f func(of, r *Rule)) {
	for _, of := range t.rules {
		if of.Plan == nil {
			continue
		}
		for _, name := range of.Plan.Plans() {
			for _, r := range of.Plan.Rules[name].all() {
				if r != of {
					f(of, r)
				}
			}
		}
	}
}

// All returns the rules in Rules, and after them those of plans. These may be several of one line: for each rule that asks
// for them, and for each day on which a month can begin.
func (t *Table) All() (all []*Rule) {
	t.each(func(r *Rule) { all = append(all, r) })
	return all
}

// each calls f with the rules in Table.Rules, and after them with those of variants.
func (t *Table) each(f func(r *Rule)) {
	for _, r := range t.rules {
		f(r)
	}
	t.variants(func(_, r *Rule) { f(r) })
}

// SameTerms reports whether the rules of two plans at one place can share their terms: these are the same but for the limit,
// which is not divided.
func SameTerms(a, b *stint.Terms) bool {
	x, y := *a, *b
	x.Limit, y.Limit = nil, nil
	return a.Own == nil && b.Own == nil && reflect.DeepEqual(x, y)
}

// adopt gives the rules of plans the keys of the rule at their place.
func (t *Table) adopt() {
	t.variants(func(of, r *Rule) {
		r.identity, r.varies, r.secrets, r.reveals, r.placed = of.identity, of.varies, of.secrets, of.reveals, of.placed
		r.Index, r.Base = of.Index, of
	})
}

// planTerms returns the terms of the rules of plans that have their own.
func (t *Table) planTerms() (all []*stint.Terms) {
	t.variants(func(of, r *Rule) {
		if r.Terms != of.Terms {
			all = append(all, r.Terms)
		}
		if r.Candidate != nil {
			all = append(all, r.Candidate.Terms)
		}
	})
	return all
}

// placeSuffix is the end of the identity of a rule at one place of plans. It does not name the plan.
func (r *Rule) placeSuffix() string {
	switch {
	case r.Plan.Place == "1":
		return ""
	case isNumber(r.Plan.Place):
		return "#" + r.Plan.Place
	}
	return "@" + escapes.Replace(r.Plan.Place)
}

// isNumber reports whether a text is a position.
func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
