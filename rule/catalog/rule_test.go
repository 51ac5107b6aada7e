package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/rule"
)

func TestCheckAccepts(t *testing.T) {
	for _, r := range []Rule{
		{ID: "7", UID: "all", URL: "/v1/orders/{id}", Time: "minute", Requests: 5},
		{ID: "7", URL: "/", Time: "sec", Requests: 5},
		{ID: "7", UID: "*", URL: "GET /v1/{a}/{b...}", Time: "15m", Requests: 5, Algorithm: "token_bucket", Burst: 9},
		{ID: "7", UID: "plan:gold", URL: "/{$}", Time: "2d", Requests: 5, Algorithm: "sliding_log"},
		{ID: "7", UID: "user:all", URL: `/v1/{id:[0-9]+}/{x:a{2,3}/?b}{/...}`, Time: "Hour", Requests: 0},
		{ID: "7", UID: "bob@example.com", URL: "/v1", Algorithm: "unlimited"},
		{ID: "7", UID: "42", URL: `/{x:\{.*\}}/y`, Time: "day", Requests: 4294967295, Policy: "deny+shadow"},
		{ID: "7", UID: "42", URL: "/v1", Time: "day", Requests: 10, Policy: "soft:10% allow"},
	} {
		if err := r.Check(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	good := Rule{ID: "7", UID: "all", URL: "/v1/orders/{id}", Time: "minute", Requests: 5}
	for _, tt := range []struct {
		change      func(r *Rule)
		field, says string
	}{
		{func(r *Rule) { r.ID = "" }, "id", "without an id"},
		{func(r *Rule) { r.ID = strings.Repeat("7", 256) }, "id", "too long"},
		{func(r *Rule) { r.ID = "7\n" }, "id", "control"},
		{func(r *Rule) { r.UID = "\xff" }, "uid", "UTF-8"},
		{func(r *Rule) { r.UID = "plan:" }, "uid", "has no name"},
		{func(r *Rule) { r.UID = "user:" }, "uid", "has no name"},
		{func(r *Rule) { r.URL = "" }, "url", "slash"},
		{func(r *Rule) { r.URL = "GET" }, "url", "slash"},
		{func(r *Rule) { r.URL = "example.com/x" }, "url", "slash"},
		{func(r *Rule) { r.URL = " /x" }, "url", "method"},
		{func(r *Rule) { r.URL = "G(T /x" }, "url", "method"},
		{func(r *Rule) { r.URL = "/a//b" }, "url", "no path has"},
		{func(r *Rule) { r.URL = "/a/../b" }, "url", "no path has"},
		{func(r *Rule) { r.URL = "/a/x{id}" }, "url", "partly"},
		{func(r *Rule) { r.URL = "/a/{id}.json" }, "url", "partly"},
		{func(r *Rule) { r.URL = "/a/{" }, "url", "partly"},
		{func(r *Rule) { r.URL = "get /a" }, "url", "capitals"},
		{func(r *Rule) { r.URL = "/a/{}" }, "url", "without a name"},
		{func(r *Rule) { r.URL = "/a/{1}" }, "url", "is not a valid wildcard name"},
		{func(r *Rule) { r.URL = "/a/{a b}" }, "url", "is not a valid wildcard name"},
		{func(r *Rule) { r.URL = "/{a}/{a}" }, "url", "two wildcards"},
		{func(r *Rule) { r.URL = "/{a...}/b" }, "url", "continues after"},
		{func(r *Rule) { r.URL = "/{$}/b" }, "url", "continues after"},
		{func(r *Rule) { r.URL = "/{a...}{/...}" }, "url", "two ends"},
		{func(r *Rule) { r.URL = "/a/{/...}" }, "url", "after a slash"},
		{func(r *Rule) { r.URL = "/{a:}" }, "url", "empty expression"},
		{func(r *Rule) { r.URL = "/{a:(}" }, "url", "does not compile"},
		{func(r *Rule) { r.URL = "/a?b=c" }, "url", "query"},
		{func(r *Rule) { r.URL = strings.Repeat("/a", 65) }, "url", "segments"},
		{func(r *Rule) { r.Time = "" }, "time", "not a valid time"},
		{func(r *Rule) { r.Time = "60" }, "time", "without a unit"},
		{func(r *Rule) { r.Time = "1ms" }, "time", ""},
		{func(r *Rule) { r.Requests = 1 << 32 }, "requests", "too many"},
		{func(r *Rule) { r.Burst = 3 }, "burst", ""},
		{func(r *Rule) { r.Burst = 1 << 40 }, "burst", "too many"},
		{func(r *Rule) { r.Algorithm = "tokenbucket" }, "algorithm", "unknown"},
		{func(r *Rule) { r.Algorithm = "unlimited" }, "algorithm", "no time"},
		{func(r *Rule) { r.Policy = "local" }, "policy", "not a policy"},
		{func(r *Rule) { r.Policy = "allow deny" }, "policy", "together"},
		{func(r *Rule) { r.Policy = "soft:0%" }, "policy", "not a valid percentage"},
		{func(r *Rule) { r.Policy = "soft:10" }, "policy", "not a valid percentage"},
		{func(r *Rule) { r.Policy, r.Algorithm = "soft:10%", "leaky_bucket" }, "policy", "has no effect"},
	} {
		r := good
		tt.change(&r)
		var fault *Error
		if err := r.Check(); !errors.As(err, &fault) {
			t.Errorf("%+v: error %v", r, err)
		} else if fault.Field != tt.field || !strings.Contains(fault.Problem, tt.says) || fault.Hint == "" || fault.ID != r.ID && len(r.ID) < 256 {
			t.Errorf("%+v: %s: %q, hint %q, want %s: %q", r, fault.Field, fault.Problem, fault.Hint, tt.field, tt.says)
		}
	}
}

func TestTerms(t *testing.T) {
	r := Rule{ID: "7", Time: "min", Requests: 100, Policy: "soft:10%+deny shadow"}
	got, err := newTerms(&r)
	if err != nil {
		t.Fatal(err)
	}
	spec := got.limit.Spec()
	if spec.Algorithm != stint.FixedWindow || spec.Per != time.Minute || spec.Requests != 100 || got.stored.Capacity() != 110 ||
		!got.shadow || got.onStoreFailure != rule.Deny || got.soft != rule.Whole/10 {
		t.Errorf("%+v, %+v", got, spec)
	}
}
