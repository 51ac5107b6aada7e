package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"stint"
	"stint/internal/limits"
)

// String returns the whole table as text: each domain with its nodes and its actions. Two tables
// with the same text decide alike. It is meant for people and tests.
func (t *Table) String() string {
	var b strings.Builder
	for _, d := range t.domains {
		d.dump(&b)
	}
	return b.String()
}

func (d *Domain) dump(b *strings.Builder) {
	fmt.Fprintf(b, "domain %s\n", d.name)
	if !d.atomic {
		b.WriteString("  each limit apart\n")
	}
	for _, l := range d.lists {
		b.WriteString("  " + l.summary() + "\n")
	}
	d.root.dump(b, "  ")
	if paths := d.paths.String(); paths != "" {
		b.WriteString("  http paths " + paths + "\n")
	}
	for i := range d.http {
		b.WriteString("  http")
		if d.http[i].Groups {
			b.WriteString(" groups")
		}
		b.WriteString(d.http[i].Actions.String())
		if cost := d.http[i].Cost; cost != nil {
			fmt.Fprintf(b, " cost %v", cost)
		}
		b.WriteByte('\n')
	}
}

// nodes returns the nodes of a level in the order of the file.
func (l level) nodes() []*Node {
	var all []*Node
	for _, c := range l {
		all = append(all, c.nodes()...)
	}
	slices.SortFunc(all, func(a, b *Node) int { return a.order - b.order })
	return all
}

func (c *candidates) nodes() []*Node {
	all := slices.Collect(maps.Values(c.exact))
	if c.any != nil {
		all = append(all, c.any)
	}
	return all
}

func (l level) dump(b *strings.Builder, indent string) {
	for _, n := range l.nodes() {
		at := n.Path[len(n.Path)-1]
		b.WriteString(indent + at.String())
		if at.Shared {
			b.WriteString(" (all in one)")
		}
		if at.ValueToMetric {
			b.WriteString(" (value in metrics)")
		}
		if at.Show {
			b.WriteString(" (shown)")
		}
		b.WriteByte('\n')
		for _, r := range n.Rules {
			fmt.Fprintf(b, "%s  * %s: %s\n", indent, r.Name, r.Summary())
		}
		n.children.dump(b, indent+"  ")
	}
}

// LimitText returns the limit with its rollover.
func (r *Rule) LimitText() string {
	text := limits.Format(r.Limit)
	if r.RollsOver() {
		text += fmt.Sprintf(" rollover %d", r.Usage.Rollover)
	}
	return text
}

// Summary returns the rule in one line, for people and tests.
func (r *Rule) Summary() string {
	words := []string{r.LimitText()}
	add := func(on bool, format string, args ...any) {
		if on {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	if r.Plan != nil {
		words[0] = fmt.Sprintf("plan limit %s %s of %s: %s", r.Plan.Limit, r.Plan.Place, r.OfPlan, words[0])
		for _, name := range r.Plan.Plans() {
			if other := r.Plan.Rules[name]; name != r.OfPlan {
				add(true, "of %s: %s", name, other.LimitText())
			}
			add(r.Plan.Rules[name].Zone != nil, "from the day of the subscription")
		}
	}
	add(r.Soft > 0, "soft %v", r.Soft)
	add(r.Tally != nil, "counting denied hits")
	add(r.Answers != nil, "charging answers %v", r.Answers)
	add(r.Elastic != nil, "elastic from %v", r.Elastic)
	add(r.Usage != nil && r.Usage.String() != "", "%v", r.Usage)
	add(r.IsDurable(), "durable")
	add(r.Penalty != nil, "with %s", penaltyText(r.Penalty))
	if r.Candidate != nil {
		add(true, "trying %s", limits.Format(r.Candidate.Limit))
	}
	add(r.Denial != nil, "denies with %v", r.Denial)
	add(r.Excess != nil, "excess %v", r.Excess)
	add(r.Shadow, "shadow")
	add(r.Quota, "quota")
	add(len(r.Replaces) > 0, "replaces %s", strings.Join(r.Replaces, " "))
	add(r.OnStoreFailure == Deny, "without store deny")
	add(r.OnStoreFailure == Local, "without store %v over %d nodes", r.LocalShare, r.Nodes)
	add(r.ShardBy != nil, "placed by %s", strings.Join(r.ShardBy, " and "))
	add(r.Headers != nil, "headers %v", r.Headers)
	add(r.DetailedMetric, "detailed metric")
	add(r.Metadata != nil, "metadata %v", r.Metadata)
	return strings.Join(words, ", ")
}

// penaltyText returns a penalty in one line.
func penaltyText(l *stint.Limit) string {
	if l == nil {
		return ""
	}
	return limits.Format(l)
}

// String returns the ratio as a percentage.
func (r Ratio) String() string { return fmt.Sprintf("%g%%", float64(r)*100/float64(Whole)) }
