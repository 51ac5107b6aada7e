package replay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"stint"
	"stint/internal/accesslog"
	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
)

func parseRules(t testing.TB, text string) *rule.Table {
	t.Helper()
	var sources []rule.Source
	for i, part := range strings.Split(text, "\n---\n") {
		sources = append(sources, rule.Source{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(part)})
	}
	table, err := rule.Parse(sources...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// ruleTexts are tables in which %[1]s stands for the algorithm of every limit. A
// line of dashes begins another file.
var ruleTexts = map[string]string{
	"one": `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 10, algorithm: %[1]s}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`,
	"several as one": `
domain: web
descriptors:
  - key: remote_address
    rate_limit: [{per: 1m, requests: 10, algorithm: %[1]s, name: minute}, {per: 1h, requests: 30, algorithm: %[1]s, name: hour}]
    descriptors:
      - key: path
        rate_limit: {per: 15m, requests: 2, algorithm: %[1]s}
  - key: all
    rate_limit: {per: 1s, requests: 5, algorithm: %[1]s}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{remote_address: {}}, {path: {}}]
    - actions: [{generic_key: {descriptor_key: all, descriptor_value: x}}]
    - actions: [{generic_key: {descriptor_key: all, descriptor_value: x}}]
`,
	"each apart, shadow, quota, unlimited, replaced": `
domain: web
atomic: false
descriptors:
  - key: remote_address
    rate_limit: {per: 1m, requests: 12, algorithm: %[1]s, name: client}
    descriptors:
      - key: method
        value: HEAD
        rate_limit: {unlimited: true, replaces: [{name: client}]}
      - key: method
        rate_limit: {per: 1m, requests: 6, algorithm: %[1]s}
        shadow_mode: true
  - key: path
    rate_limit: {per: 10m, requests: 3, algorithm: %[1]s}
    quota_mode: true
  - key: agent
    rate_limit: {per: 1h, requests: 40, algorithm: %[1]s}
    quota_mode: true
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{remote_address: {}}, {method: {}}]
    - actions: [{path: {}}]
    - actions: [{request_headers: {header_name: User-Agent, descriptor_key: agent}}]
`,
	"two domains": `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {per: 1m, requests: 20, algorithm: %[1]s}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
---
domain: search
descriptors:
  - key: q
    rate_limit: {per: 1h, requests: 1, algorithm: %[1]s}
http:
  rate_limits:
    - actions: [{query_parameters: {query_parameter_name: flav, descriptor_key: q}}]
`,
}

// served decides a log as the service does, with the store of the service.
type served struct {
	limiter *limiter.Limiter
	counts  []RuleCount
	allowed int64
	denied  int64
	free    int64
}

func (s *served) log(t *testing.T, table *rule.Table, lines []logLine, times []stint.Instant) {
	t.Helper()
	s.limiter = limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	for _, r := range table.Rules() {
		s.counts = append(s.counts, RuleCount{Rule: r.Name})
	}
	var v limiter.Verdict
	for i := range lines {
		passes, matched := true, false
		for _, domain := range table.Domains() {
			req := limiter.Request{Domain: domain.Name(), At: times[i]}
			described, err := domain.Describe(nil, &lines[i])
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range described {
				req.Descriptors = append(req.Descriptors, limiter.Descriptor{Entries: d.Entries, Cost: d.Cost})
			}
			if err := s.limiter.Decide(context.Background(), &req, &v); err != nil {
				t.Fatal(err)
			}
			passes = passes && v.Allowed
			matched = matched || len(v.Asked) > 0
			for _, a := range v.Asked {
				if a.Allowed {
					s.counts[a.Rule.Index].Allowed++
				} else {
					s.counts[a.Rule.Index].Denied++
				}
			}
		}
		switch {
		case passes:
			s.allowed++
		default:
			s.denied++
		}
		if !matched {
			s.free++
		}
	}
}

// TestRulesAsServed replays the real log by rules and compares every count with the
// limiter on the store of the service, which gets the same lines in order. What the
// report says of another algorithm must be what the table says with that algorithm
// written into it.
func TestRulesAsServed(t *testing.T) {
	const file = "testdata/apache_access.log.gz"
	lines, times := sortedLines(t, file)
	for name, text := range ruleTexts {
		t.Run(name, func(t *testing.T) {
			var report *Report
			for i, a := range Algorithms {
				table := parseRules(t, fmt.Sprintf(text, a))
				var want served
				want.log(t, table, lines, times)
				if i == 0 {
					report = replayFile(t, file, Options{Rules: table, Reorder: DefaultReorder})
					checkServed(t, report, &want)
				}
				if got := (AlgorithmCount{a.String(), want.allowed, want.denied}); report.Algorithms[i] != got {
					t.Errorf("compared %+v, served %+v", report.Algorithms[i], got)
				}
			}
			if report.Denied == 0 || report.Denied == report.Parsed {
				t.Errorf("%d denied: these rules show nothing", report.Denied)
			}
		})
	}
}

func checkServed(t *testing.T, report *Report, want *served) {
	t.Helper()
	if report.Allowed != want.allowed || report.Denied != want.denied || report.Unmatched != want.free {
		t.Errorf("%d allowed, %d denied, %d unmatched; served %d, %d, %d",
			report.Allowed, report.Denied, report.Unmatched, want.allowed, want.denied, want.free)
	}
	for i, c := range want.counts {
		if report.Rules[i] != c {
			t.Errorf("rule %+v, served %+v", report.Rules[i], c)
		}
	}
}

// sortedLines returns what the lines of a log supply to rules, in order of time.
func sortedLines(t *testing.T, name string) (lines []logLine, times []stint.Instant) {
	t.Helper()
	in, err := File(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := open(in, nil, func(int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer l.file.Close()
	var waiting []logLine
	q := newQueue(DefaultReorder.Microseconds(), func(at stint.Instant, ref uint32) error {
		lines, times = append(lines, waiting[ref]), append(times, at)
		return nil
	})
	p := accesslog.Parser{Parts: accesslog.Headers}
	for {
		line, more := l.next()
		if !more {
			break
		}
		if r, ok := p.Parse(line); ok {
			waiting = append(waiting, newLogLine(r, 0))
			if err := q.put(r.At, uint32(len(waiting)-1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := q.flush(); err != nil {
		t.Fatal(err)
	}
	return lines, times
}

// TestRulesReport shows what only a replay by rules has.
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

// TestRulesCannotBeCompared says so where an algorithm refuses the numbers of a rule.
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
	for _, want := range []string{"Rule web/remote_address is compared as it stands under token_bucket", "under leaky_bucket"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note says %q: %s", want, notes)
		}
	}
	if len(report.Algorithms) != 5 || report.Algorithms[1].Allowed != report.Parsed {
		t.Errorf("%+v", report.Algorithms)
	}
}

// TestRulesLists: who is in a list is decided by it under every algorithm, and is
// not unmatched.
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
	var input *InputError
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
	l := newLogLine(r, 3)
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
		{l.Query, "z", "", false},
		{l.Query, "c", "", false},
		{l.Query, "", "", false},
	} {
		if value, ok := test.of(test.name); value != test.value || ok != test.ok {
			t.Errorf("%s is %q, %v; want %q, %v", test.name, value, ok, test.value, test.ok)
		}
	}
}
