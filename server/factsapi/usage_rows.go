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
	now := stint.At(a.options.now())
	add := func(u transaction.Usage) bool {
		all = append(all, a.rowsOf(&u, f, now)...)
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
func (a *usageAPI) rowsOf(u *transaction.Usage, f usageFilter, now stint.Instant) (rows []UsageRow) {
	if f.subject != "" && u.Subject != f.subject || f.rule != "" && u.Rule != f.rule {
		return nil
	}
	plan := cmp.Or(u.Plan, a.planOf(u.Subject))
	for _, p := range a.periods(u, now) {
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
func (a *usageAPI) periods(u *transaction.Usage, now stint.Instant) []transaction.Period {
	r := a.ruleOf(u.Domain, u.Rule)
	if r == nil || u.Limit != "" {
		return u.History
	}
	all := u.History.At(r.Stored, r.Usage.Periods, now)
	if last := all[len(all)-1]; last.Used == 0 && !slices.Contains(u.History, last) {
		all = all[:len(all)-1]
	}
	return all
}

// ruleOf returns the rule with usage of a name; nil if there is none any more.
func (a *usageAPI) ruleOf(domain, name string) *rule.Rule {
	if table := a.options.Table(); table != nil {
		for _, r := range table.Metered() {
			if r.Domain == domain && r.Name == name {
				return r
			}
		}
	}
	return nil
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
