package rule_test

import (
	"reflect"
	"strings"
	"testing"

	"stint"
	"stint/rule"
)

// The subject of a key is the last entry of the rule, and leads back to the entries where the others are
// known.
func TestSubject(t *testing.T) {
	table := parse(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 1, per: 1h, usage: 1}
  - key: tenant
    value: t1
    descriptors:
      - {key: user, value: "vip-*", rate_limit: {requests: 1, per: 1h, usage: 1}}
      - {key: user, value: "all-*", share_threshold: true, rate_limit: {requests: 1, per: 1h, usage: 1}}
  - key: tenant
    descriptors: [{key: user, rate_limit: {requests: 1, per: 1h, notify: 80%}}]
  - {key: other, rate_limit: {requests: 1, per: 1h}}
`)
	rules := table.Metered()
	if len(rules) != 4 {
		t.Fatalf("%d rules with usage", len(rules))
	}
	long := strings.Repeat("x", 300)
	for i, tt := range []struct {
		of      int
		value   string
		subject string
		entries []rule.Entry // nil: they do not follow from the subject
	}{
		{0, "42", "user=42", []rule.Entry{{Key: "user", Value: "42"}}},
		{0, "a=b", "user=a=b", []rule.Entry{{Key: "user", Value: "a=b"}}},
		{1, "vip-1", "user=vip-1", []rule.Entry{{Key: "tenant", Value: "t1"}, {Key: "user", Value: "vip-1"}}},
		{1, "other", "user=other", nil},
		{2, "all-1", "user=all-*", []rule.Entry{{Key: "tenant", Value: "t1"}, {Key: "user", Value: "all-1"}}},
		{3, "42", "user=42", nil},
	} {
		r := rules[tt.of]
		if got := r.Subject([]rule.Entry{{Key: "tenant", Value: "t1"}, {Key: "user", Value: tt.value}}[2-len(r.Path):], nil); got != tt.subject {
			t.Errorf("%d: subject %q, want %q", i, got, tt.subject)
		}
		entries, ok := r.EntriesOf("user", tt.value)
		if ok != (tt.entries != nil) || ok && !reflect.DeepEqual(entries, tt.entries) {
			t.Errorf("%d: entries %v, %v, want %v", i, entries, ok, tt.entries)
		}
		if _, ok := r.EntriesOf("account", tt.value); ok {
			t.Errorf("%d: entries of another key", i)
		}
	}
	if got := rules[0].Subject([]rule.Entry{{Key: "user", Value: long}}, nil); len(got) != len("user=#")+64 {
		t.Errorf("a long value: %q", got)
	}
	var how stint.Handling
	rules[0].Meter(&how, []rule.Entry{{Key: "user", Value: "42"}}, nil, "pro", nil)
	if m := how.Meter; m == nil || m.Subject != "user=42" || m.Plan != "pro" || m.Limit != "" || m.Of != 1 || m.Grants != nil {
		t.Errorf("%+v", m)
	}
}

// A value that is the hash of a secret is protected in subjects too.
func TestSubjectOfSecret(t *testing.T) {
	table := parse(t, `
domain: api
http: {rate_limits: [{actions: [{api_key: {header_name: X-Key, descriptor_key: api_key}}]}]}
descriptors: [{key: api_key, rate_limit: {requests: 1, per: 1h, usage: 1}}]
`)
	r, entries := table.Metered()[0], []rule.Entry{{Key: "api_key", Value: "0123"}}
	secret := rule.NewKeySecret(make([]byte, 16))
	if got := r.Subject(entries, secret); len(got) != len("api_key=*")+64 || got != r.Subject(entries, secret) {
		t.Errorf("%q", got)
	}
}

// Durable rules are those whose limit, or that of a plan, is durable.
func TestDurable(t *testing.T) {
	table := parse(t, `
domain: api
plans: {free: {api: {requests: 5, per: 1d, durable: true}}, pro: {api: {requests: 50, per: 1d}}}
default_plan: pro
descriptors:
  - {key: a, rate_limit: {requests: 1, per: 1h, durable: true}}
  - {key: b, rate_limit: {requests: 1, per: 1h, durable: false}}
  - {key: c, rate_limit: {plan: api}}
`)
	var names []string
	for _, r := range table.Durable() {
		names = append(names, r.Name)
	}
	if want := []string{"api/a", "api/c"}; !reflect.DeepEqual(names, want) {
		t.Errorf("durable are %v, want %v", names, want)
	}
}
