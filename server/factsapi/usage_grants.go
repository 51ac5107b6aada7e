package factsapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/internal/jsonbody"
	"stint/internal/transaction"
	"stint/limiter"
	"stint/limiter/response"
	"stint/rule"
)

// Granted is a grant with whom it is for.
type Granted struct {
	Subject    string    // such as user=42
	Limit      string    // the name of a limit in plans
	Subscribed time.Time // of the subject; zero: unknown
	limiter.Grant
}

// limitKey is the key of a limit of a plan, with which a row begins.
type limitKey struct {
	Domain  string `json:"domain"`
	Rule    string `json:"rule"`
	Limit   string `json:"limit"`
	Subject string `json:"subject"`
}

// compare orders rows by their keys.
func (k *limitKey) compare(other *limitKey) int {
	return cmp.Or(cmp.Compare(k.Subject, other.Subject), cmp.Compare(k.Domain, other.Domain), cmp.Compare(k.Rule, other.Rule))
}

// GrantRow is what a key has of a grant.
type GrantRow struct {
	limitKey
	Grant    string    `json:"grant"` // its ID
	Units    int64     `json:"units"`
	Used     int64     `json:"used"`
	Left     int64     `json:"left"`
	Priority uint8     `json:"priority"`
	From     time.Time `json:"from,omitzero"` // it has not begun yet; zero: it has
	Until    time.Time `json:"until"`
}

// RolloverRow is what a period of a key left to the next one.
type RolloverRow struct {
	limitKey
	response.Rollover
}

// grantsAnswer is the answer to GET /v1/usage/grants.
type grantsAnswer struct {
	Grants    []GrantRow    `json:"grants"`
	Rollovers []RolloverRow `json:"rollovers,omitempty"`
}

// serveGrants answers GET /v1/usage/grants.
func (a *usageAPI) serveGrants(w http.ResponseWriter, r *http.Request, f usageFilter, asCSV bool) *jsonbody.Fault {
	if f.subject == "" {
		if f := a.enter(r.Context(), w); f != nil {
			return f
		}
		defer func() { <-a.full }()
	}
	answer, err := a.grants(r.Context(), f)
	switch {
	case errors.Is(err, errTooMany):
		return jsonbody.Bad("", "the answer would have more than a million grants and rollovers", "ask for one rule with rule=, or for one subject with subject=")
	case err != nil:
		return a.failed(err)
	case asCSV:
		answer.writeCSV(w)
	default:
		jsonbody.WriteJSON(w, http.StatusOK, answer)
	}
	return nil
}

// granting is a key that a grant counts for, or one with a rollover, whose ID is "".
type granting struct {
	rule *rule.Rule
	take stint.Take // of the key
	Granted
}

// grants returns what is left of the grants and rollovers that a filter selects, in order: by subject, domain and rule,
// grants then as they are used. A grant has a row for each rule that follows from its subject alone, and so has a rollover
// unless the period before left nothing.
func (a *usageAPI) grants(ctx context.Context, f usageFilter) (answer grantsAnswer, err error) {
	answer.Grants = []GrantRow{}
	taking := a.taking(f)
	all, err := a.granted(taking, f)
	if err != nil {
		return answer, err
	}
	rolling, err := a.rolling(ctx, taking, f)
	if all = append(all, rolling...); err != nil || len(all) > maxRows {
		return answer, cmp.Or(err, errTooMany)
	}
	books, err := a.books(ctx, all)
	if err != nil {
		return answer, err
	}
	now := stint.At(a.options.now())
	for i := range all {
		answer.add(&all[i], books[all[i].name()], f.from, now)
	}
	slices.SortStableFunc(answer.Grants, func(a, b GrantRow) int {
		return cmp.Or(a.compare(&b.limitKey), cmp.Compare(a.Priority, b.Priority), a.Until.Compare(b.Until))
	})
	slices.SortStableFunc(answer.Rollovers, func(a, b RolloverRow) int { return a.compare(&b.limitKey) })
	return answer, nil
}

// add adds the row of a grant or of a rollover, unless it ends before a time.
func (answer *grantsAnswer) add(g *granting, book *transaction.Book, from time.Time, now stint.Instant) {
	key := limitKey{g.rule.Domain, g.rule.Name, g.Limit, g.Subject}
	if g.ID == "" {
		if r := response.RolloverOf(g.rule.Stored, int64(g.rule.Usage.Rollover), book, now); r.Units > 0 && !r.Until.Before(from) {
			answer.Rollovers = append(answer.Rollovers, RolloverRow{key, *r})
		}
		return
	}
	one := response.GrantsOf([]limiter.Grant{g.Grant}, book, now)[0]
	if g.Until > now && !one.Until.Before(from) {
		answer.Grants = append(answer.Grants, GrantRow{key, one.ID, one.Units, one.Used, one.Left, one.Priority, one.From, one.Until})
	}
}

// taking returns the rules of a filter that take their limits from plans, by the names of these limits.
func (a *usageAPI) taking(f usageFilter) map[string][]*rule.Rule {
	taking := map[string][]*rule.Rule{}
	if table := a.options.Table(); table != nil {
		for _, r := range table.Rules() {
			if r.Plan != nil && (f.rule == "" || r.Name == f.rule) {
				taking[r.Plan.Limit] = append(taking[r.Plan.Limit], r)
			}
		}
	}
	return taking
}

// granted returns the keys that the grants of a filter's subjects count for.
func (a *usageAPI) granted(taking map[string][]*rule.Rule, f usageFilter) (all []granting, err error) {
	if a.options.Grants == nil {
		return nil, nil
	}
	err = a.options.Grants(f.subject, func(g Granted) bool {
		all = append(all, a.grantingOf(taking[g.Limit], g)...)
		return len(all) <= maxRows
	})
	return all, err
}

// rolling returns the keys of a filter's subjects whose limits have a rollover: of all subjects those that have a
// history.
func (a *usageAPI) rolling(ctx context.Context, taking map[string][]*rule.Rule, f usageFilter) (all []granting, err error) {
	rules, seen := map[string]*rule.Rule{}, map[string]bool{}
	for _, of := range taking {
		for _, r := range of {
			for _, variant := range r.Plan.Rules {
				if variant.RollsOver() {
					rules[nameOf(r.Domain, r.Name)] = r
				}
			}
		}
	}
	add := func(r *rule.Rule, subject string) {
		g := Granted{Subject: subject, Limit: r.Plan.Limit}
		if a.options.Subscribed != nil {
			g.Subscribed = a.options.Subscribed(subject)
		}
		for _, one := range a.grantingOf([]*rule.Rule{r}, g) {
			if one.rule.RollsOver() && !seen[one.name()] {
				seen[one.name()] = true // several servers may have a part of a history
				all = append(all, one)
			}
		}
	}
	if f.subject != "" {
		for _, r := range rules {
			add(r, f.subject)
		}
		return all, nil
	}
	if len(rules) == 0 {
		return nil, nil
	}
	err = a.options.Store.Usages(ctx, func(u transaction.Usage) bool {
		if r := rules[nameOf(u.Domain, u.Rule)]; r != nil {
			add(r, u.Subject)
		}
		return len(all) <= maxRows
	})
	return all, err
}

// name identifies the key in a map.
func (g *granting) name() string { return nameOf(g.rule.Domain, g.rule.Name) + "\x00" + g.Subject }

// grantingOf returns the keys that a grant counts for. The rules take its limit from plans.
func (a *usageAPI) grantingOf(rules []*rule.Rule, g Granted) (all []granting) {
	if len(rules) == 0 {
		return nil
	}
	key, value, _ := strings.Cut(g.Subject, "=")
	plan := a.planOf(g.Subject)
	for _, r := range rules {
		of, _ := r.Plan.For(plan, g.Subscribed)
		if entries, direct := r.EntriesOf(key, value); direct && of != nil && of.MayGrant() {
			all = append(all, granting{of, limiter.UsageTake(of, entries, a.options.Secret), g})
		}
	}
	return all
}

// books returns what keys used of their grants, by name. The store is asked for each key: a history may expire before
// the grants that the key used.
func (a *usageAPI) books(ctx context.Context, all []granting) (map[string]*transaction.Book, error) {
	books := make(map[string]*transaction.Book, len(all))
	for i := range all {
		name := all[i].name()
		if _, known := books[name]; known {
			continue
		}
		u, err := a.options.Store.Usage(ctx, &all[i].take)
		if err != nil {
			return nil, err
		}
		books[name] = u.Book
	}
	return books, nil
}

var grantHead = []string{"domain", "rule", "limit", "subject", "grant", "units", "used", "left", "priority", "from", "until"}

// writeCSV answers with grants as CSV. A rollover has no ID, and the priority 0, as it is used first.
func (answer *grantsAnswer) writeCSV(w http.ResponseWriter) {
	rows := make([]GrantRow, 0, len(answer.Grants)+len(answer.Rollovers))
	for i := range answer.Rollovers {
		r := &answer.Rollovers[i]
		rows = append(rows, GrantRow{limitKey: r.limitKey, Units: r.Units, Used: r.Used, Left: r.Left, Until: r.Until})
	}
	rows = append(rows, answer.Grants...)
	slices.SortStableFunc(rows, func(a, b GrantRow) int { return a.compare(&b.limitKey) })
	writeCSV(w, grantHead, func(write func(line []string) error) {
		for i := range rows {
			r, from := &rows[i], ""
			if !r.From.IsZero() {
				from = r.From.Format(time.RFC3339)
			}
			err := write([]string{
				cell(r.Domain), cell(r.Rule), cell(r.Limit), cell(r.Subject), cell(r.Grant), strconv.FormatInt(r.Units, 10), strconv.FormatInt(r.Used, 10),
				strconv.FormatInt(r.Left, 10), strconv.Itoa(int(r.Priority)), from, r.Until.Format(time.RFC3339),
			})
			if err != nil {
				return
			}
		}
	})
}
