package factsapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/rule"
)

// UsageRow is the use of one key in one period.
type UsageRow struct {
	// ID is a hash of the namespace, the domain, the rule, the limit, the subject and the period. It
	// is always the same for them, so that nothing is billed twice.
	ID string `json:"id"`

	Domain  string    `json:"domain"`
	Rule    string    `json:"rule"`
	Limit   string    `json:"limit,omitempty"` // name of the limit in a plan
	Subject string    `json:"subject"`
	Plan    string    `json:"plan"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Used    uint64    `json:"used"`
	Open    bool      `json:"open"` // the period has not ended
}

// filter selects rows.
type usageFilter struct {
	subject, rule string // "" for all
	from          time.Time
	closed        bool // only periods that have ended
}

// row is a UsageRow in little memory: there may be maxRows of them.
type row struct {
	of         *transaction.Names // shared by the rows of a history
	start, end stint.Instant
	used       uint64
}

// usageRow returns the row as it is answered.
func (a *usageAPI) usageRow(r *row, now stint.Instant) UsageRow {
	return UsageRow{
		ID:     rowID(a.options.Namespace, r.of, r.start, r.end),
		Domain: r.of.Domain, Rule: r.of.Rule, Limit: r.of.Limit, Subject: r.of.Subject, Plan: r.of.Plan,
		Start: r.start.Time().UTC(), End: r.end.Time().UTC(), Used: r.used, Open: now < r.end,
	}
}

// compare orders rows: by period, domain, rule, limit and subject. Rows that are equal in all of them are of one key.
func (r *row) compare(o *row) int {
	return cmp.Or(cmp.Compare(r.start, o.start), cmp.Compare(r.end, o.end), cmp.Compare(r.of.Domain, o.of.Domain), cmp.Compare(r.of.Rule, o.of.Rule),
		cmp.Compare(r.of.Limit, o.of.Limit), cmp.Compare(r.of.Subject, o.of.Subject))
}

// rows returns the rows that a filter selects, in order. takes are those of the filter's keys; nil: all histories
// are read.
func (a *usageAPI) rows(ctx context.Context, f usageFilter, takes []stint.Take, now stint.Instant) (all []row, err error) {
	c := collector{api: a, filter: f, now: now, rules: a.metered(), texts: map[string]string{}}
	for i := range takes {
		u, err := a.options.Store.Usage(ctx, &takes[i])
		if err != nil {
			return nil, err
		}
		c.add(u)
	}
	if takes == nil {
		err = a.options.Store.Usages(ctx, c.add)
	}
	if err == nil && len(c.rows) > maxRows {
		err = errTooMany
	}
	return merged(c.rows), err
}

// merged puts rows in order, and adds up those of one key: several servers may have a part of a history.
func merged(all []row) []row {
	slices.SortFunc(all, func(a, b row) int { return a.compare(&b) })
	n := 0
	for i := range all {
		if n > 0 && all[n-1].compare(&all[i]) == 0 {
			all[n-1].used += all[i].used
			continue
		}
		all[n] = all[i]
		n++
	}
	return all[:n]
}

// collector makes the rows of histories.
type collector struct {
	api    *usageAPI
	filter usageFilter
	now    stint.Instant
	rules  metered
	rows   []row
	texts  map[string]string // each name of a rule, a limit or a plan once
}

// add adds the rows of a history that the filter selects. It returns false if there are too many.
func (c *collector) add(u transaction.Usage) bool {
	f := &c.filter
	if f.subject != "" && u.Subject != f.subject || f.rule != "" && u.Rule != f.rule {
		return true
	}
	now := c.api.planOf(u.Subject)
	var names *transaction.Names
	for _, p := range c.rules.periods(&u, c.now) {
		if !p.End.Time().After(f.from) || f.closed && c.now < p.End {
			continue
		}
		if plan := cmp.Or(p.Plan, now); names == nil || names.Plan != plan {
			names = c.namesOf(&u, plan)
		}
		c.rows = append(c.rows, row{names, p.Start, p.End, p.Used})
	}
	return len(c.rows) <= maxRows
}

// namesOf returns the names of a period of a history, which was used under a plan.
func (c *collector) namesOf(u *transaction.Usage, plan string) *transaction.Names {
	return &transaction.Names{Domain: c.once(u.Domain), Rule: c.once(u.Rule), Limit: c.once(u.Limit), Subject: u.Subject, Plan: c.once(plan)}
}

// once returns the same memory for texts that are equal.
func (c *collector) once(text string) string {
	if kept, ok := c.texts[text]; ok {
		return kept
	}
	c.texts[text] = text
	return text
}

// periods returns the periods of a history that the rule still keeps, as if it had rolled over.
func (m metered) periods(u *transaction.Usage, now stint.Instant) []transaction.Period {
	r := m.ruleOf(u)
	if r == nil {
		return u.History
	}
	all := u.History.At(r.Stored, r.Usage.Periods, now)
	if last := all[len(all)-1]; last.Used == 0 && !slices.Contains(u.History, last) {
		all = all[:len(all)-1]
	}
	return all
}

// metered has the rules with usage by nameOf: of a place of plans, those of all plans.
type metered map[string][]*rule.Rule

func (a *usageAPI) metered() metered {
	m := metered{}
	if table := a.options.Table(); table != nil {
		for _, r := range table.Metered() {
			name := nameOf(r.Domain, r.Name)
			m[name] = append(m[name], r)
		}
	}
	return m
}

// nameOf returns the key of a rule in a map.
func nameOf(domain, name string) string { return domain + "\x00" + name }

// ruleOf returns the rule of a history; nil if there is none any more. Of those of plans it is the one
// whose windows are the last period of the history, and among several that of the subject's plan.
func (m metered) ruleOf(u *transaction.Usage) (found *rule.Rule) {
	best := -1
	for _, r := range m[nameOf(u.Domain, u.Rule)] {
		fit := 0
		if n := len(u.History); n > 0 {
			last := u.History[n-1]
			if start, end := r.Stored.ForStores().Window(new(stint.State), last.Start); start == last.Start && end == last.End {
				fit = 2
			}
		}
		if r.OfPlan == u.Plan {
			fit++
		}
		if fit > best {
			if found, best = r, fit; best == 3 {
				break
			}
		}
	}
	return found
}

func (a *usageAPI) planOf(subject string) string {
	if a.options.Plan == nil {
		return ""
	}
	return a.options.Plan(subject)
}

// rowID returns the ID of a row.
func rowID(namespace string, of *transaction.Names, start, end stint.Instant) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", of.EventBase(namespace), start, end))
	return "use_" + hex.EncodeToString(sum[:16])
}

// UsageTotal is what all subjects of a plan used of a limit in one period.
type UsageTotal struct {
	Plan     string    `json:"plan"`
	Domain   string    `json:"domain"`
	Rule     string    `json:"rule"`
	Limit    string    `json:"limit,omitempty"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Subjects int       `json:"subjects"`
	Used     uint64    `json:"used"`
	Open     bool      `json:"open"`
}

// totals adds rows up by plan, in the order of the rows.
func totals(rows []row, now stint.Instant) []UsageTotal {
	index, all := map[UsageTotal]int{}, []UsageTotal{}
	for i := range rows {
		r := &rows[i]
		t := UsageTotal{
			Plan: r.of.Plan, Domain: r.of.Domain, Rule: r.of.Rule, Limit: r.of.Limit,
			Start: r.start.Time().UTC(), End: r.end.Time().UTC(), Open: now < r.end,
		}
		n, known := index[t]
		if !known {
			n = len(all)
			index[t] = n
			all = append(all, t)
		}
		all[n].Subjects++
		all[n].Used += r.used
	}
	return all
}
