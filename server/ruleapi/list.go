package ruleapi

import (
	"net/http"
	"net/url"

	"stint/internal/jsonbody"
	"stint/rule/catalog"
)

const (
	// maxScan is the maximum number of rules that are examined for one page. A page whose filter
	// skips nearly all rules ends early, and Next continues from there.
	maxScan = 50_000

	// maxText is the maximum length of an ID, uid or domain in bytes.
	maxText = catalog.MaxID

	// step is the number of rules read from the catalog at a time.
	step = 1000
)

// listAnswer is a page of rules.
type listAnswer struct {
	Rules []ruleAnswer `json:"rules"`

	// Next is the value of the parameter after for the next page; null after the last page.
	Next *string `json:"next"`

	standing
}

// standing is the state of the current rules.
type standing struct {
	Count      int    `json:"count"`
	Generation uint64 `json:"generation"`
	Hash       string `json:"hash"`
}

func (a *api) standing() standing {
	c := a.book.Catalog()
	return standing{c.Len(), c.Generation(), c.Hash()}
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxText, "after", "limit", "uid", "domain")
	if f != nil {
		f.Write(w)
		return
	}
	limit, f := jsonbody.PageLimit(query, "rules")
	if f != nil {
		f.Write(w)
		return
	}
	answer := listAnswer{Rules: []ruleAnswer{}, standing: a.standing()}
	a.page(&answer, query, limit)
	w.Header().Set("ETag", `"`+answer.Hash+`"`)
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// page fills a page by the query parameters.
func (a *api) page(answer *listAnswer, query url.Values, limit int) {
	last := query.Get("after")
	for range maxScan / step {
		rules := a.book.Catalog().List(last, step)
		for i := range rules {
			r := &rules[i]
			if query.Has("uid") && r.UID != query.Get("uid") || query.Has("domain") && r.Domain != query.Get("domain") {
				last = r.ID
				continue
			}
			if len(answer.Rules) == limit {
				answer.Next = &last
				return
			}
			last = r.ID
			answer.Rules = append(answer.Rules, shown(r))
		}
		if len(rules) < step {
			return
		}
	}
	answer.Next = &last
}
