package rule_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

// parse reads a rule file that must be valid.
func parse(t testing.TB, yaml string) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "test.yaml", Data: []byte(yaml)})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// source returns a file under its base name.
func source(t testing.TB, name string) rulefile.Source {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return rulefile.Source{Name: filepath.Base(name), Data: data}
}

// entries parses "key=value/key=value".
func entries(text string) []rule.Entry {
	var list []rule.Entry
	for part := range strings.SplitSeq(text, "/") {
		if key, value, ok := strings.Cut(part, "="); ok {
			list = append(list, rule.Entry{Key: key, Value: value})
		}
	}
	return list
}

const matchFile = `
domain: d
descriptors:
  - {key: user, value: bob, rate_limit: {unit: day, requests_per_unit: 1, name: bob}}
  - {key: user, value: "b*", rate_limit: {unit: day, requests_per_unit: 1, name: b-star}}
  - {key: user, value: "*b", rate_limit: {unit: day, requests_per_unit: 1, name: star-b}}
  - {key: user, value: "b*z", rate_limit: {unit: day, requests_per_unit: 1, name: never}}
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1, name: any}}
  - key: ip
    rate_limit: {unit: day, requests_per_unit: 1, name: ip}
    descriptors:
      - {key: path, value: /login, rate_limit: {unit: day, requests_per_unit: 1, name: login}}
  - key: ip
    value: 10.0.0.1
    descriptors:
      - {key: path, value: /other, rate_limit: {unit: day, requests_per_unit: 1, name: other}}
  - key: ip
    value: 10.0.0.2
  - {key: tenant, value: "b*", rate_limit: {unit: day, requests_per_unit: 1, name: tenant}}
  - {key: mid, value: "a*b*c", rate_limit: {unit: day, requests_per_unit: 1, name: mid}}
  - {key: twice, value: "ab*ba", rate_limit: {unit: day, requests_per_unit: 1, name: twice}}
  - {key: a_b, rate_limit: {unit: day, requests_per_unit: 1, name: a_b}}
  - {key: a, value: b, rate_limit: {unit: day, requests_per_unit: 1, name: a=b}}
  - key: two
    rate_limit:
      - {unit: second, requests_per_unit: 1, name: two-second}
      - {unit: day, requests_per_unit: 9, name: two-day}
`

// Match finds what envoyproxy/ratelimit finds, without its defects.
func TestMatch(t *testing.T) {
	d := parse(t, matchFile).Domain("d")
	for _, tt := range []struct{ descriptor, want, why string }{
		{"user=bob", "bob", "an exact value comes first"},
		{"user=bab", "b-star", "then the patterns, the first that matches"},
		{"user=bz", "b-star", "not the most special one"},
		{"user=b", "b-star", "a star stands for nothing, too"},
		{"user=rob", "star-b", "the second pattern"},
		{"user=ann", "any", "then the node without a value"},
		{"user=", "any", "an empty value matches it as well"},
		{"user=b*", "b-star", "a pattern matches its own text"},
		{"user=b*z", "never", "even where another pattern stands before it"},
		{"user=BOB", "any", "case counts"},
		{"User=bob", "", "in keys, too"},
		{"nobody=1", "", "an unknown key"},
		{"", "", "no entry at all"},
		{"ip=1.1.1.1", "ip", "a limit on a node with children"},
		{"ip=10.0.0.1", "", "an exact node without a limit hides the one without a value"},
		{"ip=10.0.0.2", "", "an entry of an allow list"},
		{"user=bob/more=1", "", "deeper than the rule: not limited by it"},
		{"tenant=bob", "tenant", ""},
		{"tenant_bob=x", "", "a pattern is tested on the value alone, never on a joined key (D8)"},
		{"mid=abc", "mid", ""},
		{"mid=a-b-b-c", "mid", ""},
		{"mid=acb", "", "the parts stand in order"},
		{"mid=ac", "", ""},
		{"twice=aba", "", "beginning and end do not overlap"},
		{"twice=abba", "twice", ""},
		{"a_b=", "a_b", "a key is not joined with its value (D7)"},
		{"a=b", "a=b", ""},
		{"a=", "", ""},
		{"two=1", "two-second two-day", "several limits on one node"},
	} {
		if got := names(d.Match(entries(tt.descriptor))); got != tt.want {
			t.Errorf("%s: %q, want %q: %s", tt.descriptor, got, tt.want, tt.why)
		}
	}
	for _, tt := range []struct {
		descriptor []rule.Entry
		want       string
	}{
		{[]rule.Entry{{Key: "ip", Value: "1.1.1.1"}, {Key: "path", Value: "/login"}}, "login"},
		{[]rule.Entry{{Key: "ip", Value: "10.0.0.1"}, {Key: "path", Value: "/other"}}, "other"},
		{[]rule.Entry{{Key: "ip", Value: "10.0.0.1"}, {Key: "path", Value: "/login"}}, ""}, // there is no way back
		{[]rule.Entry{{Key: "ip", Value: "10.0.0.2"}, {Key: "path", Value: "/login"}}, ""},
		{[]rule.Entry{{Key: "path", Value: "/login"}, {Key: "ip", Value: "1.1.1.1"}}, ""}, // order counts
	} {
		if got := names(d.Match(tt.descriptor)); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.descriptor, got, tt.want)
		}
	}
}

func names(rules []*rule.Rule) string {
	var all []string
	for _, r := range rules {
		all = append(all, r.Name)
	}
	return strings.Join(all, " ")
}

// bigTable returns a domain with n rules, half below a user and half by name.
func bigTable(t testing.TB, n int) *rule.Domain {
	t.Helper()
	var b strings.Builder
	b.WriteString("domain: big\ndescriptors:\n  - key: user\n    descriptors:\n")
	for i := range n / 2 {
		fmt.Fprintf(&b, "      - {key: path, value: /v1/resource/%d, rate_limit: {per: 1m, requests: 10}}\n", i)
	}
	for i := range n / 2 {
		fmt.Fprintf(&b, "  - {key: user, value: user-%d, descriptors: [{key: path, rate_limit: {per: 1m, requests: 10}}]}\n", i)
	}
	table := parse(t, b.String())
	if len(table.Rules()) != n/2*2 {
		t.Fatalf("%d rules", len(table.Rules()))
	}
	return table.Domain("big")
}

func TestMatchAllocatesNothing(t *testing.T) {
	d := bigTable(t, 1000)
	asked := []rule.Entry{{Key: "user", Value: "someone"}, {Key: "path", Value: "/v1/resource/77"}}
	key := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		for _, r := range d.Match(asked) {
			key = r.AppendKey(key[:0], asked)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(key) == 0 {
		t.Error("nothing matched")
	}
}

// BenchmarkMatch matches a descriptor of two entries in 10,000 rules, a different one each time.
func BenchmarkMatch(b *testing.B) {
	d := bigTable(b, 10_000)
	var asked [1024][]rule.Entry
	for i := range asked {
		asked[i] = []rule.Entry{{Key: "user", Value: "someone"}, {Key: "path", Value: fmt.Sprint("/v1/resource/", i*4)}}
		if i%2 == 1 {
			asked[i] = []rule.Entry{{Key: "user", Value: fmt.Sprint("user-", i*4)}, {Key: "path", Value: "/v1/resource/9"}}
		}
		if len(d.Match(asked[i])) != 1 {
			b.Fatalf("%v does not match", asked[i])
		}
	}
	b.Run("match", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			d.Match(asked[i%len(asked)])
		}
	})
	b.Run("match and key", func(b *testing.B) {
		b.ReportAllocs()
		key := make([]byte, 0, 256)
		for i := 0; b.Loop(); i++ {
			e := asked[i%len(asked)]
			key = d.Match(e)[0].AppendKey(key[:0], e)
		}
	})
}
