package inforce_test

import (
	"errors"
	"testing"

	"stint/limiter"
	"stint/records/inforce"
	"stint/rule"
	"stint/rule/catalog"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// CheckOverride finds the rules of a name in the files and in the catalog, and refuses numbers that one of
// them cannot have.
func TestCheckOverride(t *testing.T) {
	table, err := rulefile.Parse(
		rulefile.Source{Name: "a.yaml", Data: []byte("domain: a\ndescriptors: [{key: user, rate_limit: {name: each, algorithm: token_bucket, requests: 5, per: 1h}}]\n")},
		rulefile.Source{Name: "b.yaml", Data: []byte("domain: b\ndescriptors: [{key: user, rate_limit: {name: each, requests: 5, per: 1h}}, {key: bucket, rate_limit: {name: alone, algorithm: token_bucket, requests: 5, per: 1h}}]\n")},
	)
	if err != nil {
		t.Fatal(err)
	}
	rules := catalog.New(catalog.Options{Domain: "api"})
	if err := rules.Put(catalog.Rule{ID: "9", UID: "*", URL: "/b", Time: "hour", Requests: 4}); err != nil {
		t.Fatal(err)
	}
	burst, requests := rule.Numbers{Burst: 3}, rule.Numbers{Requests: 7}
	for _, tt := range []struct {
		rules      *catalog.Catalog
		name       string
		numbers    rule.Numbers
		known, may bool
	}{
		{nil, "each", requests, true, true},
		{nil, "each", burst, true, false}, // the window of b has no burst
		{nil, "alone", burst, true, true},
		{nil, "9", requests, false, true},
		{rules, "9", requests, true, true},
		{rules, "9", burst, true, false},
		{rules, "each", requests, true, true},
		{rules, "nothing", burst, false, true},
	} {
		l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{Catalog: tt.rules})
		known, err := inforce.CheckOverride(l, tt.name, tt.numbers)
		if known != tt.known || (err == nil) != tt.may {
			t.Errorf("%s %+v: known %v, error %v", tt.name, tt.numbers, known, err)
		}
		if _, is := errors.AsType[*rule.NumbersError](err); err != nil && !is {
			t.Errorf("%s %+v: error %T", tt.name, tt.numbers, err)
		}
	}
}
