package rulefile

import (
	"strings"
	"testing"

	"stint/rule"
)

// merged reads files that may extend each other's domains.
func merged(texts ...string) (*rule.Table, error) {
	names := []string{"a.yaml", "b.yaml", "c.yaml"}
	var sources []Source
	for i, text := range texts {
		sources = append(sources, Source{Name: names[i], Data: []byte(text), Merge: true})
	}
	return Parse(sources...)
}

// Several files with one domain match as if everything stood in one file, in the order of the
// files.
func TestMerge(t *testing.T) {
	const first = "domain: d\natomic: false\ndescriptors:\n  - {key: user, rate_limit: {requests: 1, per: 1s}}\n  - {key: path, value: /a*, rate_limit: {requests: 2, per: 1s, name: pages}}\n"
	const second = "domain: d\non_store_failure: deny\ndescriptors:\n  - {key: path, value: /*, rate_limit: {requests: 3, per: 1s, name: pages}}\n  - {key: path, value: /ab, rate_limit: {requests: 4, per: 1s}}\n"
	const other = "domain: e\ndescriptors:\n  - {key: user, rate_limit: {requests: 5, per: 1s}}\n"
	table, err := merged(first, second, other)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(table.Domains()); n != 2 || len(table.Rules()) != 5 {
		t.Fatalf("%d domains, %d rules", n, len(table.Rules()))
	}
	d := table.Domain("d")
	if d.Atomic() || d.File() != "a.yaml" {
		t.Errorf("atomic %v, begun in %s", d.Atomic(), d.File())
	}
	for _, test := range []struct {
		entry    rule.Entry
		requests uint32
		file     string
		failure  rule.Failure
	}{
		{rule.Entry{Key: "user", Value: "x"}, 1, "a.yaml", rule.Allow},
		{rule.Entry{Key: "path", Value: "/abc"}, 2, "a.yaml", rule.Allow},
		{rule.Entry{Key: "path", Value: "/x"}, 3, "b.yaml", rule.Deny},
		{rule.Entry{Key: "path", Value: "/ab"}, 4, "b.yaml", rule.Deny},
	} {
		rules := d.Match([]rule.Entry{test.entry})
		if len(rules) != 1 || rules[0].Limit.Spec().Requests != test.requests || rules[0].File != test.file || rules[0].OnStoreFailure != test.failure {
			t.Errorf("%v: %v, want %d requests of %s", test.entry, rules, test.requests, test.file)
		}
	}
	names := map[string]bool{}
	for _, r := range table.Rules() {
		if names[r.Domain+"\x00"+r.Name] {
			t.Errorf("two rules of %s are named %s", r.Domain, r.Name)
		}
		names[r.Domain+"\x00"+r.Name] = true
	}
}

// Words that may stand only in the first file of a domain are refused elsewhere.
func TestMergeRefuses(t *testing.T) {
	const first = "domain: d\ndescriptors:\n  - {key: user, rate_limit: {requests: 1, per: 1s}}\n"
	for _, test := range []struct{ name, second, want string }{
		{"the same descriptor", first, "b.yaml:3: descriptor user stands twice, first in a.yaml:3"},
		{"http", "domain: d\nhttp: {rate_limits: [{actions: [{remote_address: {}}]}]}\n", `b.yaml:2: http, exempt, deny and atomic are for the whole domain "d", which begins in a.yaml:1`},
		{"atomic", "domain: d\natomic: false\n", "b.yaml:2: http, exempt, deny and atomic are for the whole domain"},
	} {
		if _, err := merged(first, test.second); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	if _, err := merged("domain: d\ndescriptors:\n  - {kye: user}\n", first); err == nil || strings.Contains(err.Error(), "b.yaml") {
		t.Errorf("a first file with a fault: %v", err)
	}
	if _, err := Parse(Source{Name: "a", Data: []byte(first)}, Source{Name: "b", Data: []byte(first)}); err == nil || !strings.Contains(err.Error(), "stands in two files") {
		t.Errorf("where nothing is merged: %v", err)
	}
}
