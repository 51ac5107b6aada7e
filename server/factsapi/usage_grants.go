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

// GrantRow is what a key has of a grant, or of a rollover.
type GrantRow struct {
	Domain   string    `json:"domain"`
	Rule     string    `json:"rule"`
	Limit    string    `json:"limit"`
	Subject  string    `json:"subject"`
	Grant    string    `json:"grant"` // its ID
	Units    int64     `json:"units"`
	Used     int64     `json:"used"`
	Left     int64     `json:"left"`
	Priority uint8     `json:"priority"`
	From     time.Time `json:"from,omitzero"` // it has not begun yet; zero: it has
	Until    time.Time `json:"until"`
}

// grantsAnswer is the answer to GET /v1/usage/grants.
type grantsAnswer struct {
	Grants []GrantRow `json:"grants"`
}

// serveGrants answers GET /v1/usage/grants.
func (a *usageAPI) serveGrants(w http.ResponseWriter, r *http.Request, f usageFilter, asCSV bool) *jsonbody.Fault {
	if f.subject == "" {
		if f := a.enter(r.Context(), w); f != nil {
			return f
		}
		defer func() { <-a.full }()
	}
	rows, err := a.grants(r.Context(), f)
	switch {
	case errors.Is(err, errTooMany):
		return jsonbody.Bad("", "the answer would have more than a million grants", "ask for one rule with rule=, or for one subject with subject=")
	case err != nil:
		return a.failed(err)
	case asCSV:
		writeGrants(w, rows)
	default:
		jsonbody.WriteJSON(w, http.StatusOK, grantsAnswer{append([]GrantRow{}, rows...)})
	}
	return nil
}

// granting is a key that a grant counts for.
type granting struct {
	rule *rule.Rule
	take stint.Take // of the key
	Granted
}

// grants returns what is left of the grants that a filter selects, in order: by subject, domain and rule, then as
// they are used. A grant has a row for each rule that follows from its subject alone.
func (a *usageAPI) grants(ctx context.Context, f usageFilter) (rows []GrantRow, err error) {
	table := a.options.Table()
	if a.options.Grants == nil || table == nil {
		return nil, nil
	}
	taking := map[string][]*rule.Rule{} // by the name of the limit that they take from plans
	for _, r := range table.Rules() {
		if r.Plan != nil && (f.rule == "" || r.Name == f.rule) {
			taking[r.Plan.Limit] = append(taking[r.Plan.Limit], r)
		}
	}
	var all []granting
	err = a.options.Grants(f.subject, func(g Granted) bool {
		all = append(all, a.grantingOf(taking[g.Limit], g)...)
		return len(all) <= maxRows
	})
	if err == nil && len(all) > maxRows {
		err = errTooMany
	}
	if err != nil || len(all) == 0 {
		return nil, err
	}
	books, err := a.books(ctx, all)
	if err != nil {
		return nil, err
	}
	now := stint.At(a.options.now())
	for i := range all {
		g := &all[i]
		one := response.GrantsOf([]limiter.Grant{g.Grant}, books[g.name()], now)[0]
		if g.Until > now && !one.Until.Before(f.from) {
			rows = append(rows, GrantRow{g.rule.Domain, g.rule.Name, g.Limit, g.Subject, one.ID, one.Units, one.Used, one.Left, one.Priority, one.From, one.Until})
		}
	}
	slices.SortStableFunc(rows, func(a, b GrantRow) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Priority, b.Priority), a.Until.Compare(b.Until))
	})
	return rows, nil
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

// writeGrants answers with grants as CSV.
func writeGrants(w http.ResponseWriter, rows []GrantRow) {
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
