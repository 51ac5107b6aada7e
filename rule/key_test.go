package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"stint/rule"
)

// keyOf returns the key of the only limit that a descriptor matches.
func keyOf(t *testing.T, d *rule.Domain, e []rule.Entry) string {
	t.Helper()
	rules := d.Match(e)
	if len(rules) == 0 {
		t.Fatalf("%v matches nothing", e)
	}
	return string(rules[0].AppendKey(nil, e))
}

func TestKeysReadWell(t *testing.T) {
	d := parse(t, `
domain: a/p|i
descriptors:
  - key: user
    rate_limit: [{per: 1s, requests: 1}, {per: 1m, requests: 9}, {per: 1h, requests: 90, name: "h|1"}]
  - {key: "us=er", value: 'b\b', rate_limit: {per: 1s, requests: 1}}
  - {key: star, value: "a*", rate_limit: {per: 1s, requests: 1}}
  - {key: one, value: "a*", share_threshold: true, rate_limit: {per: 1s, requests: 1}}
`).Domain("a/p|i")
	for _, tt := range []struct {
		entry rule.Entry
		want  []string
	}{
		{rule.Entry{Key: "user", Value: "42"}, []string{`ra\/p\|i/user|2:42`, `ra\/p\|i/user#1|2:42`, `ra\/p\|i/user@h\|1|2:42`}},
		{rule.Entry{Key: "user"}, []string{`ra\/p\|i/user|0:`, `ra\/p\|i/user#1|0:`, `ra\/p\|i/user@h\|1|0:`}},
		{rule.Entry{Key: "us=er", Value: `b\b`}, []string{`ra\/p\|i/us\=er=b\\b|`}},
		{rule.Entry{Key: "star", Value: "ab"}, []string{`ra\/p\|i/star~a*|2:ab`}},
		{rule.Entry{Key: "one", Value: "ab"}, []string{`ra\/p\|i/one~a*|`}},
	} {
		e := []rule.Entry{tt.entry}
		rules := d.Match(e)
		if len(rules) != len(tt.want) {
			t.Fatalf("%v matches %v", tt.entry, rules)
		}
		for i, r := range rules {
			if got := string(r.AppendKey([]byte("before "), e)); got != "before "+tt.want[i] {
				t.Errorf("%v: %s, want %s", tt.entry, got, tt.want[i])
			}
		}
	}
}

// A key keeps its bytes when the numbers of its limit change, and when other rules
// come or go.
func TestKeysSurviveReloads(t *testing.T) {
	old := parse(t, "domain: a\ndescriptors: [{key: k, rate_limit: {per: 1s, requests: 1}}]")
	next := parse(t, "domain: a\ndescriptors: [{key: j, rate_limit: {per: 1s, requests: 1}}, {key: k, rate_limit: {per: 1h, requests: 7, algorithm: token_bucket}}]")
	e := []rule.Entry{{Key: "k", Value: "v"}}
	if a, b := keyOf(t, old.Domain("a"), e), keyOf(t, next.Domain("a"), e); a != b {
		t.Errorf("%q became %q", a, b)
	}
}

// Long values and long names give short keys that still differ.
func TestLongKeys(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	d := parse(t, "domain: a\ndescriptors: [{key: k, descriptors: [{key: k, rate_limit: {per: 1s, requests: 1}}]}, {key: "+
		strings.Repeat("n", 2000)+", rate_limit: {per: 1s, requests: 1}}]").Domain("a")
	seen := map[string]string{}
	for name, e := range map[string][]rule.Entry{
		"first long":  {{Key: "k", Value: long}, {Key: "k", Value: "x"}},
		"second long": {{Key: "k", Value: "x"}, {Key: "k", Value: long}},
		"both long":   {{Key: "k", Value: long}, {Key: "k", Value: long}},
		"one longer":  {{Key: "k", Value: long + "x"}, {Key: "k", Value: long}},
		"256":         {{Key: "k", Value: long[:256]}, {Key: "k", Value: ""}},
		"257":         {{Key: "k", Value: long[:257]}, {Key: "k", Value: ""}},
		"long name":   {{Key: strings.Repeat("n", 2000), Value: "v"}},
	} {
		key := keyOf(t, d, e)
		if other, twice := seen[key]; twice {
			t.Errorf("%s and %s share a key", name, other)
		}
		seen[key] = name
		if len(key) > 512+261*len(e) {
			t.Errorf("%s: %d bytes", name, len(key))
		}
	}
}

// keyRules are rules whose names and values are easy to confuse.
const keyRules = `
domain: "a"
descriptors:
  - {key: a, rate_limit: [{per: 1s, requests: 1}, {per: 1m, requests: 1}, {per: 1m, requests: 2, name: "1"}, {per: 1m, requests: 2, name: "#1"}]}
  - {key: "a#1", rate_limit: {per: 1s, requests: 1}}
  - {key: "a@1", rate_limit: {per: 1s, requests: 1}}
  - {key: "a/a", rate_limit: {per: 1s, requests: 1}}
  - {key: "a=b", rate_limit: {per: 1s, requests: 1}}
  - {key: 'a\', rate_limit: {per: 1s, requests: 1}}
  - {key: "a|0:", rate_limit: {per: 1s, requests: 1}}
  - {key: "a~b*", rate_limit: {per: 1s, requests: 1}}
  - {key: a, value: b, rate_limit: {per: 1s, requests: 1}}
  - {key: a, value: "b*", rate_limit: {per: 1s, requests: 1}, descriptors: [{key: a, rate_limit: {per: 1s, requests: 1}}]}
  - {key: a, value: "c*", share_threshold: true, rate_limit: {per: 1s, requests: 1}, descriptors: [{key: a, rate_limit: {per: 1s, requests: 1}}]}
`

// Two different pairs of rule and values never have the same key.
func FuzzAppendKey(f *testing.F) {
	tables := []*rule.Table{parse(f, keyRules), parse(f, strings.Replace(keyRules, `domain: "a"`, `domain: "a/a"`, 1))}
	f.Add("x", "y", "x", "z")
	f.Add("1:a", "", "", "1:a")
	f.Add("b1", "2:xy", "b12", ":xy")
	f.Add(strings.Repeat("b", 300), "#", "c#", strings.Repeat("b", 257))
	f.Fuzz(func(t *testing.T, a1, a2, b1, b2 string) {
		seen := map[string]string{}
		for i, table := range tables {
			for _, r := range table.Rules() {
				for _, values := range [][]string{{a1, a2}, {b1, b2}} {
					who := fmt.Sprint(i, r.Index)
					var e []rule.Entry
					for j, l := range r.Path {
						value := values[j]
						if l.Value != "" && !l.Wildcard {
							value = l.Value
						}
						e = append(e, rule.Entry{Key: l.Key, Value: value})
						if l.Value == "" || l.Wildcard && !l.Shared {
							who += fmt.Sprintf(" %q", value)
						}
					}
					key := string(r.AppendKey(nil, e))
					if other, twice := seen[key]; twice && other != who {
						t.Fatalf("%s and %s share the key %q", who, other, key)
					}
					seen[key] = who
				}
			}
		}
	})
}
