package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/replay/accesslog"
	"stint/replay/whatif"
	"stint/rule"
	"stint/store/memory"
	"stint/store/storetest/model"
)

// noLeaky is the suffix of tables that cannot use leaky_bucket.
const noLeaky = ", no leaky_bucket"

// ruleTexts are rule files in which %[1]s is replaced by the algorithm of every limit. A line of
// dashes separates two files.
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
	"soft" + noLeaky: `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {per: 1m, requests: 10, algorithm: %[1]s, soft: 25%%}
    descriptors:
      - key: path
        rate_limit: {per: 15m, requests: 3, algorithm: %[1]s, soft: 50%%}
        shadow_mode: true
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{remote_address: {}}, {path: {}}]
`,
	"elastic" + noLeaky: `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {per: 1m, requests: 8, algorithm: %[1]s, elastic: {from: all, upto: 300%%}}
  - key: method
    value: GET
    rate_limit: {per: 1m, requests: 30, algorithm: %[1]s, name: all}
  - key: agent
    rate_limit: {per: 10m, requests: 20, algorithm: %[1]s, elastic: {from: load, below: 70%%, upto: 200%%}}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{remote_address: {}}]
    - actions: [{request_headers: {header_name: User-Agent, descriptor_key: agent}}]
`,
	"elastic, its pool is asked too" + noLeaky: `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {per: 1m, requests: 4, algorithm: %[1]s, elastic: {from: all, upto: 1000%%}}
    descriptors:
      - key: path
        rate_limit: {per: 15m, requests: 1, algorithm: %[1]s, elastic: {from: all, upto: 500%%}}
  - key: total
    value: x
    rate_limit: {per: 1m, requests: 25, algorithm: %[1]s, name: all}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{remote_address: {}}, {path: {}}]
    - actions: [{generic_key: {descriptor_key: total, descriptor_value: x}}]
`,
	"responses" + noLeaky: `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {per: 1h, requests: 5, algorithm: %[1]s, count: responses, statuses: [404, 304, 5xx]}
    descriptors:
      - key: path
        rate_limit: {per: 15m, requests: 2, algorithm: %[1]s, count: responses, statuses: [200], soft: 50%%, denial: {status: 503}}
      - key: method
        rate_limit: {per: 1m, requests: 3, algorithm: %[1]s, count: responses, statuses: [429, 503, 200]}
        shadow_mode: true
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{remote_address: {}}]
    - actions: [{remote_address: {}}, {path: {}}]
    - actions: [{remote_address: {}}, {method: {}}]
`,
	"costs": `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {per: 1m, requests: 20, algorithm: %[1]s}
    descriptors:
      - key: path
        rate_limit: {per: 1h, requests: 6, algorithm: %[1]s}
  - key: all
    rate_limit: {per: 1m, requests: 60, algorithm: %[1]s}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
      cost: {query: commentlimit, default: 2, min: 0, max: 50}
    - actions: [{remote_address: {}}, {path: {}}]
      cost: {query: flav}
    - actions: [{generic_key: {descriptor_key: all, descriptor_value: x}}]
      cost: {body: 1KiB, default: 3}
`,
}

// served decides a log as the service does; by default it uses the store of the service.
type served struct {
	store   stint.Store
	limiter *limiter.Limiter
	counts  []RuleCount
	allowed int64
	denied  int64
	free    int64
	bad     int64
	over    int64
}

func (s *served) log(t *testing.T, table *rule.Table, lines []accesslog.Request, times []stint.Instant) {
	t.Helper()
	s.begin(table)
	for i := range lines {
		s.line(t, table, &lines[i], times[i])
	}
}

func (s *served) begin(table *rule.Table) {
	if s.store == nil {
		s.store = memory.New(memory.Options{})
	}
	s.limiter = limiter.New(s.store, table, limiter.Options{})
	for _, r := range table.Rules() {
		s.counts = append(s.counts, RuleCount{Rule: r.Name})
	}
}

// line decides a line, settles it with its status, and reports whether it passes.
func (s *served) line(t *testing.T, table *rule.Table, line *accesslog.Request, at stint.Instant) bool {
	t.Helper()
	passes, matched, bad, over := true, false, false, false
	for _, domain := range table.Domains() {
		req := limiter.Request{Domain: domain.Name(), At: at, Attributes: line, Answers: line.Status > 0}
		described, err := domain.Describe(nil, line, rule.AnyPhase)
		if err != nil {
			passes, matched, bad = false, true, true
			continue
		}
		for _, d := range described {
			req.Descriptors = append(req.Descriptors, limiter.Descriptor{Entries: d.Entries, Cost: d.Cost})
		}
		v := s.decide(t, &req, int(line.Status))
		passes = passes && v.Allowed
		matched = matched || len(v.Asked) > 0
		over = over || v.Over
	}
	s.allowed, s.denied = s.allowed+one(passes), s.denied+one(!passes)
	s.free, s.bad, s.over = s.free+one(!matched), s.bad+one(bad), s.over+one(passes && over)
	return passes
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func (s *served) decide(t *testing.T, req *limiter.Request, status int) *limiter.Verdict {
	t.Helper()
	v := new(limiter.Verdict)
	if err := s.limiter.Decide(context.Background(), req, v); err != nil {
		t.Fatal(err)
	}
	if !v.Allowed {
		status = http.StatusTooManyRequests
		if v.Rule != nil && v.Rule.Denial != nil {
			status = v.Rule.Denial.Status
		}
	}
	if v.Reserved() {
		if err := s.limiter.Settle(context.Background(), v, status); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range v.Asked {
		switch c := &s.counts[a.Rule.Index]; {
		case a.Cost == 0:
		case a.Allowed:
			c.Allowed++
		default:
			c.Denied++
		}
	}
	return v
}

// TestRulesAsServed replays the real log by rules and compares every count with the limiter and the
// store of the service, which decide the same lines in order. The results for another algorithm
// must equal those of a table with that algorithm in all rules.
func TestRulesAsServed(t *testing.T) {
	testkit.OneGoroutine(t)
	file := beginning(t, "testdata/apache_access.log.gz")
	lines, times := sortedLines(t, file)
	for name, text := range ruleTexts {
		t.Run(name, func(t *testing.T) {
			reports, wants := map[stint.Algorithm]*Report{}, map[stint.Algorithm]*served{}
			for _, a := range Algorithms {
				if a == stint.LeakyBucket && strings.HasSuffix(name, noLeaky) {
					continue
				}
				table, want := parseRules(t, fmt.Sprintf(text, a)), new(served)
				want.log(t, table, lines, times)
				report := replayFile(t, file, Options{Rules: table, Reorder: DefaultReorder})
				checkServed(t, report, want)
				if a != stint.LeakyBucket && (report.Denied == 0 || report.Allowed == 0) {
					t.Errorf("%d denied: these rules show nothing", report.Denied)
				}
				reports[a], wants[a] = report, want
			}
			for algorithm, report := range reports {
				for i, a := range Algorithms {
					if want := wants[a]; want != nil {
						if got := (AlgorithmCount{a.String(), want.allowed, want.denied}); report.Algorithms[i] != got {
							t.Errorf("of %v compared %+v, served %+v", algorithm, report.Algorithms[i], got)
						}
					}
				}
			}
		})
	}
}

func checkServed(t *testing.T, report *Report, want *served) {
	t.Helper()
	got := served{allowed: report.Allowed, denied: report.Denied, free: report.Unmatched, bad: report.BadCosts, over: report.Over}
	if w := (served{allowed: want.allowed, denied: want.denied, free: want.free, bad: want.bad, over: want.over}); !reflect.DeepEqual(got, w) {
		t.Errorf("replayed %+v, served %+v", got, w)
	}
	for i, c := range want.counts {
		if report.Rules[i] != c {
			t.Errorf("rule %+v, served %+v", report.Rules[i], c)
		}
	}
}

// TestRulesLineByLine replays generated logs with every kind of result, and compares each line with
// the limiter on the store of the service and on the reference store.
func TestRulesLineByLine(t *testing.T) {
	testkit.OneGoroutine(t)
	random := rand.New(rand.NewPCG(6, 9))
	length := 3000
	if testing.Short() {
		length = 700
	}
	for name, text := range ruleTexts {
		for _, a := range []stint.Algorithm{stint.FixedWindow, stint.TokenBucket, stint.SlidingLog, stint.SlidingWindow} {
			t.Run(fmt.Sprint(name, " ", a), func(t *testing.T) {
				table := parseRules(t, fmt.Sprintf(text, a))
				d, err := newRulesDecider(&Options{Rules: table})
				if err != nil {
					t.Fatal(err)
				}
				ours, plain := new(served), &served{store: new(model.Store)}
				ours.begin(table)
				plain.begin(table)
				at := stint.At(time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC))
				for i := range length {
					at += stint.Instant(random.Int64N(6e6))
					line := randomLine(t, random)
					want := ours.line(t, table, &line, at)
					if plain.line(t, table, &line, at) != want {
						t.Fatalf("line %d: the stores differ", i)
					}
					d.tally.known(0)
					d.waiting = append(d.waiting[:0], line)
					if err := d.decide(at, 0); err != nil {
						t.Fatal(err)
					}
					if got := d.outcome.denied>>whatif.Written&1 == 0; got != want {
						t.Fatalf("line %d passes: %v, want %v", i, got, want)
					}
					own := 1 + slices.Index(Algorithms, a)
					if d.outcome.denied>>own&1 != d.outcome.denied>>whatif.Written&1 {
						t.Fatalf("line %d differs in the column of its own algorithm", i)
					}
				}
				for i, c := range ours.counts {
					if d.counts[i] != c || plain.counts[i] != c {
						t.Errorf("rule %+v, want %+v", d.counts[i], c)
					}
				}
				if d.over != ours.over || d.badCosts != ours.bad || d.unmatched != ours.free {
					t.Errorf("over %d, bad %d, free %d, want %+v", d.over, d.badCosts, d.unmatched, ours)
				}
			})
		}
	}
}

// beginning returns a log; in short mode only its first quarter.
func beginning(t *testing.T, name string) string {
	t.Helper()
	if !testing.Short() {
		return name
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(bytes.Lines(all))
	name = filepath.Join(t.TempDir(), "part.log")
	if err := os.WriteFile(name, bytes.Join(lines[:len(lines)/4], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// randomLine returns a random line of one of a few clients, some of which are busy.
func randomLine(t *testing.T, random *rand.Rand) accesslog.Request {
	t.Helper()
	queries := []string{"", "", "", "?commentlimit=0", "?commentlimit=7", "?flav=1", "?flav=1&flav=2", "?flav=atom", "?commentlimit=-1"}
	text := fmt.Sprintf(`192.0.2.%d - - [17/May/2015:10:05:03 +0000] "%s /%c%s HTTP/1.1" %s 5 "-" "agent/%d"`,
		random.IntN(1+random.IntN(4)), []string{"GET", "POST", "HEAD"}[random.IntN(3)], 'a'+random.IntN(3),
		queries[random.IntN(len(queries))], []string{"200", "200", "404", "503", "-"}[random.IntN(5)], random.IntN(2))
	p := accesslog.Parser{Parts: accesslog.Headers}
	r, ok := p.Parse([]byte(text))
	if !ok {
		t.Fatalf("cannot be parsed: %s", text)
	}
	return accesslog.NewRequest(r, 0)
}

// sortedLines returns the requests of a log in order of time.
func sortedLines(t *testing.T, name string) (lines []accesslog.Request, times []stint.Instant) {
	t.Helper()
	in, err := accesslog.File(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := accesslog.Open(in, nil, func(int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var waiting []accesslog.Request
	q := accesslog.NewQueue(DefaultReorder.Microseconds(), func(at stint.Instant, ref uint32) error {
		lines, times = append(lines, waiting[ref]), append(times, at)
		return nil
	})
	p := accesslog.Parser{Parts: accesslog.Headers}
	for {
		line, more := l.Next()
		if !more {
			break
		}
		if r, ok := p.Parse(line); ok {
			waiting = append(waiting, accesslog.NewRequest(r, 0))
			if err := q.Put(r.At, uint32(len(waiting)-1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := q.Flush(); err != nil {
		t.Fatal(err)
	}
	return lines, times
}
