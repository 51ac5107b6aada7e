package telemetry

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stint/limiter"
	"stint/rule"
	"stint/rule/catalog"
	"stint/store/memory"
)

// All catalog rules of a domain are one series, even if a rule of a file has the same name.
func TestCatalogIsOneSeries(t *testing.T) {
	c := catalog.New(catalog.Options{Domain: "api"})
	for _, r := range []catalog.Rule{
		{ID: "1", URL: "/a", Time: "hour", Requests: 1},
		{ID: "2", URL: "/b", Time: "hour", Requests: 1},
		{ID: "3", URL: "/a", Time: "hour", Requests: 9, Domain: "web"},
	} {
		if err := c.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	m.Catalog(func() CatalogStats { return CatalogStats{Rules: c.Len(), Generation: c.Generation(), Hash: c.Hash()} })
	l := limiter.New(memory.New(memory.Options{}), nil, limiter.Options{Observer: m, Catalog: c})
	table := parse(t, "domain: web\ndescriptors: [{key: x, rate_limit: {name: catalog, requests: 5, per: 1h}}]\n")
	m.Reloaded(table, time.Now())
	l.Swap(table)
	v := new(limiter.Verdict)
	ask := func(domain, key, value string) {
		req := limiter.Request{Domain: domain, Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: key, Value: value}}, Cost: 1}}}
		if err := l.Decide(t.Context(), &req, v); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		ask("api", "path", "/a")
		ask("api", "path", "/b")
		ask("web", "path", "/a")
		ask("web", "x", "1")
	}
	(&service{l, m, reg}).expect(t, `
		stint_rule_allowed_total{domain="api",rule="catalog"} 2
		stint_rule_denied_total{domain="api",rule="catalog"} 4
		stint_rule_allowed_total{domain="web",rule="catalog"} 6
		stint_catalog_info{hash="`+c.Hash()+`"} 1
		stint_catalog_rules 3
		stint_catalog_generation 3
	`)
}
