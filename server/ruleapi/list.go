package ruleapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/rule/catalog"
)

const (
	defaultLimit = 100
	maxLimit     = 1000

	// maxScan is the maximum number of rules that are examined for one page. A page whose filter
	// skips nearly all rules ends early, and Next continues from there.
	maxScan = 50_000

	// maxText is the maximum length of an ID, uid or domain in bytes.
	maxText = catalog.MaxID

	// maxParameters is the maximum number of query parameters. Each takes much memory, even an
	// empty one.
	maxParameters = 32

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
	query, f := readQuery(r, "after", "limit", "uid", "domain")
	if f != nil {
		f.Write(w)
		return
	}
	limit := defaultLimit
	if written := query.Get("limit"); query.Has("limit") {
		n, err := strconv.Atoi(written)
		if err != nil || n < 1 || n > maxLimit {
			jsonbody.Bad("limit", text.Quote(written)+" is not a valid number of rules", fmt.Sprintf("write a whole number from 1 to %d", maxLimit)).Write(w)
			return
		}
		limit = n
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

// readQuery reads the parameters of a request, none of which may be repeated.
func readQuery(r *http.Request, known ...string) (url.Values, *jsonbody.Fault) {
	if strings.Count(r.URL.RawQuery, "&") >= maxParameters {
		return nil, jsonbody.Bad("", fmt.Sprintf("more than %d parameters", maxParameters), "known here are "+strings.Join(known, ", "))
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, jsonbody.Bad("", "the query cannot be read", "write name=value, with & between them and escapes such as %20 within")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return nil, jsonbody.Bad("", "unknown parameter "+text.Quote(name), "known here are "+strings.Join(known, ", "))
		case len(values) > 1:
			return nil, jsonbody.Bad(name, "given twice", "give it once")
		case len(values[0]) > maxText:
			return nil, jsonbody.Bad(name, fmt.Sprintf("longer than %d bytes", maxText), "no rule has it")
		}
	}
	return query, nil
}
