package httpapi

import (
	"net/http"

	"stint/internal/jsonbody"
	"stint/rule"
	"stint/server/httpapi/limitjson"
)

// tableAnswer is the answer to GET /v1/limits: the current rules.
type tableAnswer struct {
	Hash       string         `json:"hash"`
	Generation uint64         `json:"generation"`
	Rules      int            `json:"rules"`
	Domains    []domainAnswer `json:"domains"`
	Catalog    *CatalogStatus `json:"catalog,omitempty"`
}

type domainAnswer struct {
	Domain string       `json:"domain"`
	Atomic bool         `json:"atomic"`
	Rules  []ruleAnswer `json:"rules"`
}

// ruleAnswer is one rule, in the words of rule files.
type ruleAnswer struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
	limitjson.Limit
	limitjson.Policy
	Shadow   bool     `json:"shadow"`
	Quota    bool     `json:"quota"`
	Replaces []string `json:"replaces,omitempty"`

	// Overrides is how many subjects and patterns have other numbers.
	Overrides int `json:"overrides,omitempty"`

	OnStoreFailure string `json:"on_store_failure"`
	Coordination   string `json:"coordination"`
}

func (a *admin) limits(w http.ResponseWriter, _ *http.Request) {
	status := a.status()
	answer := tableAnswer{Domains: []domainAnswer{}, Generation: status.Generation, Catalog: status.Catalog}
	if table := a.limiter.Table(); table != nil {
		var overrides map[string]int
		if a.options.Overrides != nil {
			overrides = a.options.Overrides()
		}
		answer.fill(table, overrides)
	}
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

func (a *tableAnswer) fill(table *rule.Table, overrides map[string]int) {
	a.Hash, a.Rules = table.Hash(), len(table.Rules())
	place := map[string]int{}
	for i, d := range table.Domains() {
		place[d.Name()] = i
		a.Domains = append(a.Domains, domainAnswer{Domain: d.Name(), Atomic: d.Atomic(), Rules: []ruleAnswer{}})
	}
	for _, r := range table.Rules() {
		d := &a.Domains[place[r.Domain]]
		d.Rules = append(d.Rules, ruleAnswer{
			Name: r.Name, File: r.File, Line: r.Line,
			Limit: limitjson.LimitOf(r.Limit), Policy: limitjson.PolicyOf(r),
			Shadow: r.Shadow, Quota: r.Quota, Replaces: r.Replaces, Overrides: overrides[r.Name],
			OnStoreFailure: r.OnStoreFailure.String(), Coordination: r.Coordination.String(),
		})
	}
}
