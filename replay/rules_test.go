package replay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"stint"
	"stint/replay/accesslog"
	"stint/rule"
	"stint/rule/rulefile"
)

func parseRules(t testing.TB, text string) *rule.Table {
	t.Helper()
	var sources []rulefile.Source
	for i, part := range strings.Split(text, "\n---\n") {
		sources = append(sources, rulefile.Source{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(part)})
	}
	table, err := rulefile.Parse(sources...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestRulesReport checks the parts of a report that only rules have.
func TestRulesReport(t *testing.T) {
	table := parseRules(t, fmt.Sprintf(ruleTexts["each apart, shadow, quota, unlimited, replaced"], stint.TokenBucket))
	report := replayFile(t, "testdata/apache_access.log.gz", Options{Rules: table, Reorder: DefaultReorder})
	if len(report.ShadowRules) != 1 || report.ShadowRules[0] != "web/remote_address/method" {
		t.Errorf("shadow rules %q", report.ShadowRules)
	}
	if report.Limit != "" || report.Algorithm != "" || report.ClientKind != "clients" || report.DistinctClients != 1753 {
		t.Errorf("limit %q, algorithm %q, %d %s", report.Limit, report.Algorithm, report.DistinctClients, report.ClientKind)
	}
	if got := report.Comparison[2].Numbers; got != "rates of the rules, burst 0" {
		t.Errorf("numbers %q", got)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "web/remote_address/method (shadow)") || !strings.HasPrefix(text.String(), "With these rules, ") {
		t.Error(text.String())
	}
}

// TestRulesCannotBeCompared checks the note that an algorithm does not accept the numbers of a
// rule.
func TestRulesCannotBeCompared(t *testing.T) {
	table := parseRules(t, `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {per: 1s, requests: 5000000}
  - key: month
    rate_limit: {unit: month, requests: 1, time_zone: UTC}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`)
	report := replayFile(t, "testdata/bursts.log", Options{Rules: table, Reorder: DefaultReorder})
	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{"Rule web/remote_address keeps its own algorithm in the comparison with token_bucket", "with leaky_bucket"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note says %q: %s", want, notes)
		}
	}
	if len(report.Algorithms) != 5 || report.Algorithms[1].Allowed != report.Parsed {
		t.Errorf("%+v", report.Algorithms)
	}
}

// TestRulesRemarks checks the notes about missing data in a log, about lines above limits, and
// about lines refused without a rule.
func TestRulesRemarks(t *testing.T) {
	table := parseRules(t, `
domain: web
descriptors:
  - key: soft
    rate_limit: {per: 1h, requests: 4, soft: 50%, name: gentle}
  - key: load
    rate_limit: {per: 1h, requests: 6, elastic: {from: load, below: 70%, upto: 200%}}
  - key: guesses
    rate_limit: {per: 1h, requests: 9, count: responses, statuses: [401]}
http:
  rate_limits:
    - actions: [{generic_key: {descriptor_key: soft, descriptor_value: x}}]
      cost: {query: cost, min: 0}
    - actions: [{generic_key: {descriptor_key: load, descriptor_value: x}}]
    - actions: [{generic_key: {descriptor_key: guesses, descriptor_value: x}}]
`)
	var log strings.Builder
	for i, end := range []string{`?cost=2 HTTP/1.1" 200`, ` HTTP/1.1" 401`, `?cost=2`, `?cost=0 HTTP/1.1" 401`, `?cost=-1 HTTP/1.1" 200`, ` HTTP/1.1" 200`, `?cost=1&cost=2 HTTP/1.1" 200`, `?cost=3 HTTP/1.1" 200`} {
		fmt.Fprintf(&log, "192.0.2.1 - - [17/May/2015:10:05:%02d +0000] \"GET /%s 5\n", i, end)
	}
	report, err := Run(context.Background(), Options{Rules: table}, []accesslog.Input{accesslog.Reader("log", strings.NewReader(log.String()))})
	if err != nil {
		t.Fatal(err)
	}
	if report.Allowed != 5 || report.Denied != 3 || report.BadCosts != 2 || report.Over != 2 || report.Unmatched != 0 {
		t.Errorf("%d allowed, %d denied, %d bad costs, %d over, %d unmatched", report.Allowed, report.Denied, report.BadCosts, report.Over, report.Unmatched)
	}
	want := []string{
		`2 requests name an invalid cost (query parameter cost: "-1" is not a whole number from 0 to 10000) and would have been answered 400: denied, but by no rule.`,
		"1 line has no status: limits that count responses charged it.",
		"2 requests passed above the plain limit of rule gentle.",
		"Rule web/load allows borrowing by a load, which logs do not contain: no request could borrow.",
	}
	if !slices.Equal(report.Notes, want) {
		t.Errorf("notes\n%s\nwant\n%s", strings.Join(report.Notes, "\n"), strings.Join(want, "\n"))
	}
	if counts := []RuleCount{{"gentle", 4, 1}, {"web/load", 6, 0}, {"web/guesses", 6, 0}}; !slices.Equal(report.Rules, counts) {
		t.Errorf("rules %+v, want %+v", report.Rules, counts)
	}
}

// TestRulesLists checks that a list decides its clients under every algorithm, and that they do not
// count as unmatched.
func TestRulesLists(t *testing.T) {
	const rules = `
domain: web
LIST:
  - {cidrs: ["0.0.0.0/0", "::/0"]}
descriptors:
  - key: remote_address
    rate_limit: {per: 1h, requests: 1}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`
	for list, passing := range map[string]bool{"exempt": true, "deny": false} {
		report := replayFile(t, "testdata/bursts.log", Options{
			Rules: parseRules(t, strings.Replace(rules, "LIST", list, 1)), Reorder: DefaultReorder, Algorithms: []stint.Algorithm{stint.TokenBucket},
		})
		want := int64(0)
		if passing {
			want = report.Parsed
		}
		if report.Allowed != want || report.Unmatched != 0 || report.Parsed == 0 {
			t.Errorf("%s: %d of %d allowed, %d unmatched", list, report.Allowed, report.Parsed, report.Unmatched)
		}
		for _, one := range report.Algorithms {
			if one.Allowed != want {
				t.Errorf("%s: %s allows %d, want %d", list, one.Algorithm, one.Allowed, want)
			}
		}
	}
}

func TestRulesWithoutHTTP(t *testing.T) {
	table := parseRules(t, "domain: a\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 1}\n")
	_, err := Run(context.Background(), Options{Rules: table}, nil)
	var input *accesslog.InputError
	if !errors.As(err, &input) || input.Hint == "" {
		t.Errorf("%v, want an error with a hint", err)
	}
}

func TestLogLine(t *testing.T) {
	p := accesslog.Parser{Parts: accesslog.Headers}
	r, ok := p.Parse([]byte(`www.example.org:80 192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET /a%20b?x=1&y=a+b%21&x=2&z=%zz&;c=1&e= HTTP/1.1" 200 5 "http://r/" "Agent"`))
	if !ok {
		t.Fatal("cannot be parsed")
	}
	l := accesslog.NewRequest(r, 3)
	if l.Method() != "GET" || l.Path() != "/a%20b" || l.RemoteAddress() != netip.MustParseAddr("192.0.2.7") {
		t.Errorf("%s %s %s", l.Method(), l.Path(), l.RemoteAddress())
	}
	for _, test := range []struct {
		of          func(string) (string, bool)
		name, value string
		ok          bool
	}{
		{l.Header, "user-agent", "Agent", true},
		{l.Header, "Referer", "http://r/", true},
		{l.Header, "host", "www.example.org:80", true},
		{l.Header, "X-Api-Key", "", false},
		{l.Query, "x", "1", true},
		{l.Query, "y", "a b!", true},
		{l.Query, "e", "", true},
		{l.Query, "z", "%zz", true},
		{l.Query, "c", "1", true},
		{l.Query, "", "", false},
	} {
		if value, ok := test.of(test.name); value != test.value || ok != test.ok {
			t.Errorf("%s is %q, %v; want %q, %v", test.name, value, ok, test.value, test.ok)
		}
	}
}

// A line whose path has too many readings counts as refused.
func TestRulesBadPath(t *testing.T) {
	table := parseRules(t, `
domain: web
descriptors: [{key: path, rate_limit: {per: 1h, requests: 4, name: paths}}]
http: {rate_limits: [{actions: [{path: {}}]}]}
`)
	const line = "192.0.2.1 - - [17/May/2015:10:05:0%d +0000] \"GET %s HTTP/1.1\" 200 5\n"
	log := fmt.Sprintf(line, 1, "/a;b%2F..//c%252F.%2e/d;e") + fmt.Sprintf(line, 2, "/a;b")
	report, err := Run(context.Background(), Options{Rules: table}, []accesslog.Input{accesslog.Reader("log", strings.NewReader(log))})
	if err != nil {
		t.Fatal(err)
	}
	if report.Allowed != 1 || report.Denied != 1 || len(report.Notes) != 1 || !strings.HasPrefix(report.Notes[0], "1 request has a path with too many readings (path ") {
		t.Errorf("%d allowed, %d denied, %q", report.Allowed, report.Denied, report.Notes)
	}
}

// A penalty is replayed in the column of the rules as written: of ten requests an hour's limit lets
// one pass, and after an hour the penalty of three still denies.
func TestRulesPenalty(t *testing.T) {
	table := parseRules(t, `
domain: web
descriptors: [{key: remote_address, rate_limit: {per: 1h, align: first, requests: 1, penalty: {after: 1, ladder: [3h], shared: true}}}]
http: {rate_limits: [{actions: [{remote_address: {}}]}]}
`)
	log := ""
	for hour := 5; hour < 15; hour++ {
		log += fmt.Sprintf("192.0.2.1 - - [17/May/2015:%02d:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n", hour)
		log += fmt.Sprintf("192.0.2.1 - - [17/May/2015:%02d:10:00 +0000] \"GET / HTTP/1.1\" 200 5\n", hour)
		log += fmt.Sprintf("192.0.2.1 - - [17/May/2015:%02d:20:00 +0000] \"GET / HTTP/1.1\" 200 5\n", hour)
	}
	report, err := Run(context.Background(), Options{Rules: table}, []accesslog.Input{accesslog.Reader("log", strings.NewReader(log))})
	if err != nil {
		t.Fatal(err)
	}
	if report.Allowed != 3 || report.Denied != 27 { // 5:00, and after each step of 3 h from :20
		t.Errorf("%d allowed, %d denied", report.Allowed, report.Denied)
	}
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "penalty") {
		t.Errorf("%q", report.Notes)
	}
}
