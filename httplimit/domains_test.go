package httplimit_test

import (
	"net/http"
	"testing"

	"stint/httplimit"
	"stint/limiter"
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
