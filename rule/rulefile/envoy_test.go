package rulefile_test

import (
	"fmt"
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// parseAs reads a file as envoyproxy/ratelimit does, or as Stint does.
func parseAs(envoy bool, text string) (*rule.Table, error) {
	return rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(text), Envoy: envoy})
}

// A file that envoyproxy/ratelimit accepts is accepted with warnings in Envoy mode, with the same
// meaning. In the ordinary mode it is refused.
func TestEnvoyLetsPass(t *testing.T) {
	const user = "domain: d\ndescriptors:\n- key: user\n"
	const five = "  rate_limit: {unit: day, requests_per_unit: 5}\n"
	const plain = "fixed_window 5 per 1d, counting denied hits"
	const shadow = plain + ", shadow"
	for _, test := range []struct{ name, text, want, warning string }{
		{"shadow_mode: yes", user + "  shadow_mode: yes\n" + five, shadow, "4: shadow_mode: yes stands for true"},
		{"shadow_mode: on", user + "  shadow_mode: on\n" + five, shadow, "4: shadow_mode: on stands for true"},
		{"shadow_mode: y", user + "  shadow_mode: y\n" + five, shadow, "4: shadow_mode: y stands for true"},
		{"shadow_mode: Off", user + "  shadow_mode: Off\n" + five, plain, "4: shadow_mode: Off stands for false"},
		{"shadow_mode empty", user + "  shadow_mode:\n" + five, plain, "4: shadow_mode: nothing stands for false"},
		{"no requests_per_unit", user + "  rate_limit: {unit: day}\n", "fixed_window 0 per 1d, counting denied hits", "4: a rate_limit without requests_per_unit denies everything"},
		{"an empty one", user + "  rate_limit: {unit: day, requests_per_unit: }\n", "fixed_window 0 per 1d, counting denied hits", "4: a rate_limit without requests_per_unit denies everything"},
		{"domain twice", "domain: e\n" + user + five, plain, `2: "domain" stands twice, first in line 1; the second counts`},
		{"key twice", user + "  key: user\n" + five, plain, `4: "key" stands twice, first in line 3; the second counts`},
		{"rate_limit twice", user + "  rate_limit: {requests_per_unit: 9, unit: day}\n  rate_limit: {requests_per_unit: 5}\n", plain, `5: "rate_limit" stands twice, first in line 4; the two are joined`},
		{"a second document", user + five + "---\ndomain: e\n", plain, "5: a second document in one file is not read"},
		{"a second one that is no YAML", user + five + "---\n{[\n", plain, "a second document in one file is not read"},
		{"name at the top", "name: n\n" + user + five, plain, `1: "name" means nothing in the file`},
		{"replaces in a descriptor", user + "  replaces: [{name: n}]\n" + five, plain, `4: "replaces" means nothing in a descriptor`},
		{"unit in a descriptor", user + "  unit: day\n" + five, plain, `4: "unit" means nothing in a descriptor`},
		{"shadow_mode in a rate_limit", user + "  rate_limit: {unit: day, requests_per_unit: 5, shadow_mode: true}\n", plain, `4: "shadow_mode" means nothing in a rate_limit`},
		{"unit beside unlimited", user + "  rate_limit: {unlimited: true, unit: day}\n", "unlimited", "4: unit beside unlimited: true means nothing"},
		{"an unknown one", user + "  rate_limit: {unit: eon, unlimited: true}\n", "unlimited", "4: unit beside unlimited: true means nothing"},
		{"share_threshold by a key", "domain: d\ndescriptors:\n- key: user*\n  share_threshold: true\n" + five, plain, "3: share_threshold on user*, whose key has a *"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parseAs(false, test.text); err == nil {
				t.Error("it is accepted in an ordinary file too")
			}
			table, err := parseAs(true, test.text)
			if err != nil {
				t.Fatal(err)
			}
			if rules := table.Rules(); len(rules) != 1 || rules[0].Summary() != test.want || rules[0].Domain != "d" {
				t.Errorf("%s, want %s", table, test.want)
			}
			found := false
			for _, w := range table.Warnings() {
				found = found || w.ID == "let-pass" && w.Hint != "" && strings.HasPrefix(fmt.Sprintf("%d: %s", w.Line, w.Text), test.warning) || strings.HasPrefix(w.Text, test.warning)
			}
			if !found {
				t.Errorf("warnings %v, want %s", table.Warnings(), test.warning)
			}
		})
	}
}

// In Envoy mode an empty rate_limit limits nothing. In an ordinary file it is refused.
func TestEnvoyEmptyLimit(t *testing.T) {
	const text = "domain: d\ndescriptors:\n- key: user\n  rate_limit:\n"
	if _, err := parseAs(false, text); err == nil || !strings.Contains(err.Error(), "rate_limit on user is empty") {
		t.Errorf("an ordinary file: %v", err)
	}
	table, err := parseAs(true, text)
	if err != nil {
		t.Fatal(err)
	}
	if found := table.Warnings(); len(table.Rules()) != 0 || len(found) != 1 || found[0].ID != "let-pass" || found[0].Line != 4 {
		t.Errorf("%d rules, warnings %v", len(table.Rules()), found)
	}
}

// Envoy mode refuses what envoyproxy/ratelimit refuses.
func TestEnvoyRefuses(t *testing.T) {
	const user = "domain: d\ndescriptors:\n- key: user\n"
	for text, want := range map[string]string{
		"descriptors: []\n":                                                       "the file names no domain",
		"domain: d\ndescriptors: [{value: x}]\n":                                  "a descriptor without a key",
		"domain: d\ndescriptors: [{key: a}, {key: a}]\n":                          "stands twice",
		user + "  rate_limit: {unit: eon, requests_per_unit: 1}\n":                `unknown unit "eon"`,
		user + "  rate_limit: {requests_per_unit: 1}\n":                           "a rate_limit without a period",
		user + "  rate_limit: {unit: day, requests_per_unit: -1}\n":               "is negative",
		user + "  rate_limit: {unit: day, requests: 1, ratelimit: 1}\n":           `unknown word "ratelimit"`,
		user + "  shadow_mode: \"yes\"\n  rate_limit: {unit: day, requests: 1}\n": "expected true or false",
		user + "  share_threshold: true\n":                                        "share_threshold on user, whose value has no *",
		user + "  rate_limit: {name: a, unit: day, replaces: [{name: a}]}\n":      "replaces itself",
	} {
		if _, err := parseAs(true, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v, want %s", text, err, want)
		}
	}
}

// Descriptors may nest deeper than 64 levels, and each value still has its own bucket.
func TestEnvoyNesting(t *testing.T) {
	const deep = 100
	text, indent, entries := "domain: d\n", "", []rule.Entry{}
	for i := range deep {
		text += fmt.Sprintf("%sdescriptors:\n%s- key: k%d\n", indent, indent, i)
		indent += "  "
		entries = append(entries, rule.Entry{Key: fmt.Sprintf("k%d", i), Value: "x"})
	}
	text += indent + "rate_limit: {unit: day, requests_per_unit: 5, shard_by: [k99]}\n"
	if _, err := parseAs(false, text); err == nil {
		t.Error("an ordinary file may nest as deep")
	}
	table, err := parseAs(true, text)
	if err != nil {
		t.Fatal(err)
	}
	found := table.Domain("d").Match(entries)
	if len(found) != 1 {
		t.Fatalf("%d rules", len(found))
	}
	keys, places := map[string]int{}, map[string]int{}
	for i := range deep {
		entries[i].Value = "y"
		keys[string(found[0].AppendKey(nil, entries))] = i
		places[string(found[0].AppendPlace(nil, entries))] = i
		entries[i].Value = "x"
	}
	if len(keys) != deep || len(places) != 2 {
		t.Errorf("%d keys and %d places of %d", len(keys), len(places), deep)
	}
}

// A limit counts as in envoyproxy/ratelimit unless it uses a word that only Stint has, or its
// domain is atomic.
func TestEnvoyTally(t *testing.T) {
	for text, want := range map[string]bool{
		"unit: day, requests_per_unit: 5":                                    true,
		"unit: day, requests_per_unit: 0":                                    true,
		"per: 90m, requests: 5, algorithm: fixed_window":                     true,
		"unit: day, requests_per_unit: 4294967295":                           false,
		"unit: day, requests_per_unit: 5, algorithm: token_bucket":           false,
		"unit: day, requests_per_unit: 5, align: first":                      false,
		"unit: day, requests_per_unit: 5, time_zone: Europe/Madrid":          false,
		"unit: day, requests_per_unit: 5, overdraw: true":                    false,
		"unit: day, requests_per_unit: 5, soft: 20%":                         false,
		"unit: day, requests_per_unit: 100, coordination: leased":            false,
		"unit: day, requests_per_unit: 5, count: responses, statuses: [5xx]": false,
		"unlimited: true": false,
	} {
		for _, domain := range []string{"domain: d", "domain: d\natomic: true"} {
			table, err := parseAs(true, domain+"\ndescriptors: [{key: a, rate_limit: {"+text+"}}]\n")
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			atomic := table.Domain("d").Atomic()
			if r := table.Rules()[0]; (r.Tally != nil) != (want && !atomic) {
				t.Errorf("%s; %s: tally %v", domain, text, r.Tally)
			}
		}
		table, err := parseAs(false, "domain: d\ndescriptors: [{key: a, rate_limit: {"+text+"}}]\n")
		if err != nil || table.Rules()[0].Tally != nil || !table.Domain("d").Atomic() {
			t.Errorf("%s: an ordinary file: %v, %v", text, table, err)
		}
	}
}
