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

// rows returns the rows that a filter selects, in order: by period, domain, rule, limit and subject.
func (a *usageAPI) rows(ctx context.Context, f usageFilter) ([]UsageRow, error) {
	var all []UsageRow
	now, rules := stint.At(a.options.now()), a.metered()
	add := func(u transaction.Usage) bool {
		all = append(all, a.rowsOf(&u, f, rules, now)...)
		return len(all) <= maxRows
	}
	var err error
	if takes, direct := a.takesOf(f); direct {
		for i := range takes {
			var u transaction.Usage
			if u, err = a.options.Store.Usage(ctx, &takes[i]); err != nil || !add(u) {
				break
			}
		}
	} else {
		err = a.options.Store.Usages(ctx, add)
	}
	if err == nil && len(all) > maxRows {
		err = errTooMany
	}
	slices.SortFunc(all, func(a, b UsageRow) int {
		return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Subject, b.Subject))
	})
	return all, err
}

// rowsOf returns the rows of a history that a filter selects.
func (a *usageAPI) rowsOf(u *transaction.Usage, f usageFilter, rules metered, now stint.Instant) (rows []UsageRow) {
	if f.subject != "" && u.Subject != f.subject || f.rule != "" && u.Rule != f.rule {
		return nil
	}
	plan := cmp.Or(u.Plan, a.planOf(u.Subject))
	for _, p := range rules.periods(u, now) {
		start, end := p.Start.Time().UTC(), p.End.Time().UTC()
		open := now < p.End
		if !end.After(f.from) || f.closed && open {
			continue
		}
		rows = append(rows, UsageRow{
			ID:     rowID(a.options.Namespace, u, p.Start, p.End),
			Domain: u.Domain, Rule: u.Rule, Limit: u.Limit, Subject: u.Subject, Plan: plan, Start: start, End: end, Used: p.Used, Open: open,
		})
	}
	return rows
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
func rowID(namespace string, u *transaction.Usage, start, end stint.Instant) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", u.EventBase(namespace), start, end))
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
func totals(rows []UsageRow) []UsageTotal {
	index, all := map[UsageTotal]int{}, []UsageTotal{}
	for i := range rows {
		r := &rows[i]
		t := UsageTotal{Plan: r.Plan, Domain: r.Domain, Rule: r.Rule, Limit: r.Limit, Start: r.Start, End: r.End, Open: r.Open}
		n, known := index[t]
		if !known {
			n = len(all)
			index[t] = n
			all = append(all, t)
		}
		all[n].Subjects++
		all[n].Used += r.Used
	}
	return all
}
