package httplimit_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// TestDomains checks that a denial gives back what middlewares of other domains took before.
func TestDomains(t *testing.T) {
	rules := func(domain, requests string) rulefile.Source {
		return rulefile.Source{Name: domain, Data: []byte(`{domain: ` + domain + `, descriptors: [{key: all, rate_limit: {requests: ` + requests +
			`, per: 1h}}], http: {rate_limits: [{actions: [{generic_key: {descriptor_key: all, descriptor_value: x}}]}]}}`)}
	}
	table, err := rulefile.Parse(rules("first", "5"), rules("second", "5"), rules("third", "1"))
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	pass := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	var site http.Handler = pass
	for _, domain := range []string{"third", "second", "first"} {
		site = httplimit.New(l, domain, httplimit.Options{Phase: httplimit.Early})(site)
	}
	for i, want := range []int{200, 429, 429, 429} {
		if w := get(site, "192.0.2.1:1", "/"); w.Code != want {
			t.Errorf("request %d: %d", i+1, w.Code)
		}
	}
	for _, domain := range []string{"first", "second"} {
		w := get(httplimit.New(l, domain, httplimit.Options{})(pass), "192.0.2.1:1", "/")
		expect(t, domain, field(w, "X-RateLimit-Remaining"), "3") // after the request that passed and this one
	}
}

// TestSeveralDomains checks that an answer shows the limits of all domains that a request passed.
func TestSeveralDomains(t *testing.T) {
	const file = `{domain: NAME, descriptors: [{key: early, rate_limit: {name: NAME-early, requests: 8, per: 1h}}, {key: user, rate_limit: {name: NAME-late, requests: LATE, per: 1h}}],
		http: {rate_limits: [{actions: [{generic_key: {descriptor_key: early, descriptor_value: x}}]}, {actions: [{identity: {}}]}]}}`
	source := func(name, late string) rulefile.Source {
		return rulefile.Source{Name: name, Data: []byte(strings.NewReplacer("NAME", name, "LATE", late).Replace(file))}
	}
	table, err := rulefile.Parse(source("a", "3"), source("b", "5"))
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	var earlier httplimit.Earlier
	var site http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, one := range []struct {
		domain string
		phase  httplimit.Phase
	}{{"b", rule.AnyPhase}, {"a", rule.AnyPhase}, {"b", httplimit.Early}, {"a", httplimit.Early}} {
		site = httplimit.New(l, one.domain, httplimit.Options{
			Phase: one.phase, Several: true, Identity: func(*http.Request) string { return "ann" }, Earlier: func(*http.Request) *httplimit.Earlier { return &earlier },
		})(site)
	}
	for i := range 2 {
		earlier = httplimit.Earlier{}
		w := get(site, "192.0.2.1:1", "/")
		expect(t, "RateLimit-Policy", field(w, "RateLimit-Policy"), `"a-late";q=3;w=3600, "b-late";q=5;w=3600, "b-early";q=8;w=3600, "a-early";q=8;w=3600`)
		expect(t, "X-RateLimit-Remaining", field(w, "X-RateLimit-Remaining"), strconv.Itoa(2-i))
	}
}
