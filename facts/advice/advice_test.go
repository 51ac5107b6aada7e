package advice

import (
	"strings"
	"testing"
	"time"

	"stint"
	"stint/facts"
	"stint/rule"
	"stint/rule/rulefile"
)

const rules = `
domain: api
descriptors:
  - key: plan
    value: "free tier"
    descriptors:
      - key: user
        rate_limit: {requests: 100, per: 1m, name: users}
  - key: bucket
    rate_limit: {requests: 600, per: 1m, algorithm: token_bucket, burst: 20}
  - key: queue
    rate_limit: {requests: 600, per: 1m, algorithm: leaky_bucket, burst: 10}
  - key: unqueued
    rate_limit: {requests: 600, per: 1m, algorithm: leaky_bucket}
  - key: aligned
    rate_limit: {requests: 100, per: 1m, align: first, overdraw: true}
  - key: counting
    rate_limit: {requests: 100, per: 1m, algorithm: sliding_log, count_denied: true, min_interval: 10ms}
  - key: path
    rate_limit: {requests: 100, per: 1m, algorithm: sliding_window, blocks: 6}
  - key: ip
    rate_limit: {requests: 100, per: 1m}
  - key: month
    rate_limit: {requests: 1000, unit: month, time_zone: Europe/Zurich}
  - key: tried
    shadow_mode: true
    rate_limit: {requests: 100, per: 1m}
  - key: free
    rate_limit: {unlimited: true}
http:
  rate_limits:
    - actions: [{generic_key: {descriptor_key: plan, descriptor_value: free tier}}, {request_headers: {header_name: x-user, descriptor_key: user}}]
    - actions: [{path: {}}]
    - actions: [{remote_address: {descriptor_key: ip}}]
`

var now = time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)

// healthy returns facts of a rule that works: ten days old, with a denial for one key in a thousand.
func healthy(name string) facts.Rule {
	return facts.Rule{
		Domain: "api", Name: name, Counts: facts.Counts{Allowed: 100_000, Denied: 100}, Keys: 400,
		First: now.Add(-10 * 24 * time.Hour), Last: now,
		Peaks: facts.Peaks{
			Since: now.Add(-10 * 24 * time.Hour), Sampled: 1000, Periods: 50_000, FirstPeriods: 1000,
			P50: 0.2, P90: 0.4, P99: 0.6, P999: 0.8, KeyP99: 0.9, DeniedKeys: 1, Excess: 9,
			Denials: [10]uint64{10, 10, 10, 10, 10, 10, 10, 10, 10, 10}, Retries: 90, Passed: 10, Bursts: 5, Largest: 0.05,
		},
	}
}

func parse(t *testing.T, text string) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return table
}

// of returns the advice about a rule with these facts.
func of(t *testing.T, f facts.Rule, change ...func(*Input)) []Advice {
	t.Helper()
	in := Input{
		Summary: &facts.Summary{At: now, Since: now.Add(-20 * 24 * time.Hour), Nodes: []facts.Node{{Decided: 1_000_000}}, Rules: []facts.Rule{f}},
		Table:   parse(t, rules),
	}
	for _, c := range change {
		c(&in)
	}
	return Of(in)
}

// tight changes facts so that many keys are denied.
func tight(f *facts.Rule) {
	f.Peaks.DeniedKeys, f.Peaks.Excess, f.Peaks.KeyP99 = 100, 1.3, 1.6
}

// edgy changes facts so that denials are at the edges of windows.
func edgy(f *facts.Rule) { f.Peaks.Denials = [10]uint64{30, 0, 0, 10, 10, 10, 0, 0, 0, 40} }

// bursty changes facts so that denials are of bursts.
func bursty(f *facts.Rule) { f.Peaks.Bursts, f.Peaks.KeyP99, f.Peaks.Excess = 80, 2.0, 1.8 }

// loose changes facts so that nothing comes near the limit.
func isLoose(f *facts.Rule) {
	f.Denied = 0
	f.Peaks.P999, f.Peaks.KeyP99, f.Peaks.DeniedKeys, f.Peaks.Excess, f.Peaks.Denials, f.Peaks.Bursts = 0.1, 0.1, 0, 0, [10]uint64{}, 0
}

func oneKeyOnly(f *facts.Rule) { f.Peaks.Largest = 0.93 }

func unmatched(f *facts.Rule) {
	*f = facts.Rule{Domain: f.Domain, Name: f.Name}
}

// TestOf has facts with one cause each, or with several of which the first counts.
func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		rule    string
		change  []func(*facts.Rule)
		cause   Cause
		number  float64
		text    string
		has     []string // in the YAML
		atLeast bool
	}{
		"wrong key first": {
			"users",
			[]func(*facts.Rule){oneKeyOnly, edgy, bursty, tight},
			WrongKey, 0.93,
			"users counts by the wrong key: 93.0 % of its requests are of one key, so that one bucket decides for nearly everybody.",
			[]string{
				"  - key: plan\n    value: \"free tier\"\n    descriptors:\n      - key: user\n        descriptors:\n          - key: remote_address\n            rate_limit:\n",
				`    - actions: [{generic_key: {"descriptor_key":"plan","descriptor_value":"free tier"}}, {request_headers: {"`, `, {remote_address: {}}]`,
			},
			true,
		},
		"edges before bursts": {
			"api/ip",
			[]func(*facts.Rule){edgy, bursty, tight},
			EdgeBursts, 0.7,
			"api/ip denies at the edges of its window: at least 70.0 % of its denials fall in the first or last tenth of 1m, so that a bucket which refills steadily fits better.",
			[]string{"requests: 100\n", "per: 1m\n", "algorithm: token_bucket\n", "burst: 170\n"},
			true,
		},
		"edges, at most twice": {
			"api/ip", []func(*facts.Rule){edgy, func(f *facts.Rule) { f.Peaks.KeyP99 = 3 }}, EdgeBursts, 0.7, "", []string{"burst: 200\n"}, true,
		},
		"bursts before tight": {
			"api/bucket", []func(*facts.Rule){edgy, bursty, tight}, BurstTooSmall, 0.8, "", []string{"requests: 600\n", "algorithm: token_bucket\n", "burst: 33\n"}, true,
		},
		"a queue for bursts": {
			"api/queue", []func(*facts.Rule){bursty}, BurstTooSmall, 0.8, "", []string{"algorithm: leaky_bucket\n", "burst: 22\n"}, true,
		},
		"a burst of a minute at most": {
			"api/bucket", []func(*facts.Rule){bursty, func(f *facts.Rule) { f.Peaks.KeyP99 = 100 }}, BurstTooSmall, 0.8, "", []string{"burst: 600\n"}, true,
		},
		"edges of the first request": {
			"api/aligned", []func(*facts.Rule){edgy}, EdgeBursts, 0.7, "", []string{"algorithm: token_bucket\n", "burst: ", "overdraw: true\n"}, true,
		},
		"a log for bursts": {
			"api/counting", []func(*facts.Rule){bursty}, BurstTooSmall, 0.8, "", []string{"algorithm: token_bucket\n", "burst: 210\n"}, true,
		},
		"a window for bursts": {
			"api/path", []func(*facts.Rule){bursty}, BurstTooSmall, 0.8, "", []string{"requests: 100\n", "algorithm: token_bucket\n", "burst: 210\n"}, true,
		},
		"tight": {
			"api/path",
			[]func(*facts.Rule){tight},
			TooTight, 0.1,
			"api/path is too tight: it denies at least 10.0 % of its keys, and half of these ask for at least 1.3 times the limit.",
			[]string{"requests: 170\n", "algorithm: sliding_window\n", "blocks: 6\n"},
			true,
		},
		"tight, month": {
			"api/month", []func(*facts.Rule){bursty, edgy, tight}, TooTight, 0.1, "", []string{"requests: 1700\n", "unit: month\n", "time_zone: Europe/Zurich\n"}, true,
		},
		"tight by retries": {
			"api/bucket",
			[]func(*facts.Rule){tight, func(f *facts.Rule) { f.Peaks.Excess, f.Peaks.KeyP99, f.Peaks.Passed = 3, 3, 70 }},
			TooTight, 0.1,
			"api/bucket is too tight: it denies at least 10.0 % of its keys, and 70.0 % of the denied requests pass when they are tried again within 1m.",
			[]string{"requests: 1900\n", "burst: 62\n"},
			true,
		},
		"tight queue": { // its length is what keys lack, and hardly its rate
			"api/queue",
			[]func(*facts.Rule){tight, func(f *facts.Rule) { f.Peaks.Excess, f.Peaks.KeyP99, f.Peaks.Passed = 50, 200, 70 }},
			TooTight, 0.1, "",
			[]string{"requests: 1800\n", "algorithm: leaky_bucket\n", "burst: 2299\n"},
			true,
		},
		"tight, without a queue": {
			"api/unqueued", []func(*facts.Rule){tight}, TooTight, 0.1, "", []string{"requests: 990\n", "burst: 1\n"}, true,
		},
		"loose queue": {"api/queue", []func(*facts.Rule){isLoose}, TooLoose, 10, "", []string{"requests: 120\n", "burst: 2\n"}, false},
		"loose": {
			"users",
			[]func(*facts.Rule){isLoose},
			TooLoose, 10,
			"users is too loose: for 10 days its limit was 10 times what 99.9 % of its keys used at most, and it denied nothing.",
			[]string{"# rules.yaml:8\n", "requests: 20\n", "name: users\n"},
			false,
		},
		"loose bucket": {"api/bucket", []func(*facts.Rule){isLoose}, TooLoose, 10, "", []string{"requests: 120\n", "burst: 4\n"}, false},
		"never matched": {
			"users",
			[]func(*facts.Rule){unmatched},
			NeverMatched, 20, "users matched no request for 20 days, while others were decided.",
			[]string{"# remove these lines, or send requests that they match\n# rules.yaml:8\n# domain: api\n"},
			false,
		},
		"shadow": {
			"api/tried", nil, ShadowReady, 100.0 / 100_100,
			"api/tried can leave shadow mode: in 10 days it would have denied 0.10 % of its requests, of 0.10 % of its keys.", nil, false,
		},
		"shadow, tight": {
			"api/tried",
			[]func(*facts.Rule){tight},
			TooTight, 0.1,
			"api/tried is too tight: it denies 10.0 % of its keys, and half of these ask for 1.3 times the limit.",
			[]string{"requests: 170\n"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(c.rule)
			for _, change := range c.change {
				change(&f)
			}
			got := of(t, f)
			if len(got) != 1 {
				t.Fatalf("%+v", got)
			}
			a := got[0]
			if a.Domain != "api" || a.Rule != c.rule || a.File != "rules.yaml" || a.Line == 0 || a.Cause != c.cause || a.Number < c.number*0.999 || a.Number > c.number*1.001 || a.AtLeast != c.atLeast {
				t.Errorf("%+v", a)
			}
			if c.text != "" && a.Text != c.text {
				t.Errorf("%s\nwant %s", a.Text, c.text)
			}
			for _, want := range c.has {
				if !strings.Contains(a.YAML, want) {
					t.Errorf("no %q in\n%s", want, a.YAML)
				}
			}
			if a.Command != "stint replay --rules rules.yaml access.log" {
				t.Errorf("command %q", a.Command)
			}
			if c.cause != NeverMatched {
				parse(t, a.YAML)
			}
			if a.Candidate != "" {
				parse(t, a.Candidate)
			}
			numbers := c.cause != NeverMatched && c.cause != ShadowReady && c.cause != WrongKey
			if numbers != strings.Contains(a.Candidate, "candidate: {requests: ") {
				t.Errorf("candidate:\n%s", a.Candidate)
			}
		})
	}
}

// TestSilent has facts that look like a cause, without being one.
func TestSilent(t *testing.T) {
	for name, c := range map[string]struct {
		rule   string
		change func(*facts.Rule)
	}{
		"healthy":                 {"users", func(*facts.Rule) {}},
		"unlimited":               {"api/free", tight},
		"of no table":             {"other", tight},
		"few keys":                {"users", func(f *facts.Rule) { tight(f); f.Keys, f.Peaks.Sampled = 49, 49 }},
		"few requests":            {"users", func(f *facts.Rule) { tight(f); f.Allowed, f.Denied = 899, 100 }},
		"known for minutes":       {"users", func(f *facts.Rule) { tight(f); f.First = now.Add(-59 * time.Minute) }},
		"measured for minutes":    {"users", func(f *facts.Rule) { tight(f); f.Peaks.Since = now.Add(-59 * time.Minute) }},
		"not measured":            {"users", func(f *facts.Rule) { tight(f); f.Peaks.Since = time.Time{} }},
		"one of a hundred denied": {"users", func(f *facts.Rule) { tight(f); f.Peaks.DeniedKeys = 10 }},
		"abusers":                 {"users", func(f *facts.Rule) { tight(f); f.Peaks.Excess = 1.6 }},
		"few denials":             {"users", func(f *facts.Rule) { tight(f); edgy(f); f.Peaks.Denials = [10]uint64{10, 0, 0, 0, 0, 0, 0, 0, 0, 9} }},
		"no window":               {"api/bucket", edgy},
		"a month":                 {"api/month", edgy},
		"half at the edges":       {"api/ip", func(f *facts.Rule) { f.Peaks.Denials = [10]uint64{20, 10, 10, 10, 0, 0, 0, 10, 10, 30} }},
		"half bursts":             {"api/bucket", func(f *facts.Rule) { bursty(f); f.Peaks.Bursts = 50 }},
		"bursts of a month":       {"api/month", bursty},
		"loose for six days":      {"users", func(f *facts.Rule) { isLoose(f); f.Peaks.Since = now.Add(-167 * time.Hour) }},
		"a third":                 {"users", func(f *facts.Rule) { isLoose(f); f.Peaks.P999 = 0.34 }},
		"loose, denied once":      {"users", func(f *facts.Rule) { isLoose(f); f.Denied = 1 }},
		"loose, a sample denied":  {"users", func(f *facts.Rule) { isLoose(f); f.Peaks.DeniedKeys = 1 }},
		"one key of 90 %":         {"users", func(f *facts.Rule) { f.Peaks.Largest = 0.9 }},
		"keys that return":        {"users", func(f *facts.Rule) { f.Peaks.P99, f.Peaks.FirstPeriods = 0.01, 45_000 }},
		"new keys with more":      {"users", func(f *facts.Rule) { f.Peaks.P99, f.Peaks.FirstPeriods = 0.02, 50_000 }},
		"unmatched for hours":     {"users", func(f *facts.Rule) { unmatched(f); f.Last = now.Add(-23 * time.Hour) }},
		"added lately":            {"users", func(f *facts.Rule) { unmatched(f); f.Since = now.Add(-23 * time.Hour) }},
		"shadow, some denied":     {"api/tried", func(f *facts.Rule) { f.Peaks.DeniedKeys = 11 }},
		"shadow for minutes":      {"api/tried", func(f *facts.Rule) { f.First = now.Add(-59 * time.Minute) }},
	} {
		f := healthy(c.rule)
		c.change(&f)
		if got := of(t, f); got == nil || len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	few := healthy("users")
	tight(&few)
	few.Keys, few.Peaks.Sampled, few.Peaks.DeniedKeys = 20, 60, 6
	if got := of(t, few, func(in *Input) { in.Summary.Nodes = make([]facts.Node, 3) }); len(got) != 0 {
		t.Errorf("20 keys, each in the sample of three nodes: %+v", got)
	}
	f := healthy("users")
	unmatched(&f)
	if got := of(t, f, func(in *Input) { in.Summary.Nodes[0].Decided = 999 }); len(got) != 0 {
		t.Errorf("never matched, but hardly anything was decided: %+v", got)
	}
}

// TestNewKeys: keys that a client chooses are replaced by its address, and addresses by networks.
func TestNewKeys(t *testing.T) {
	for rule, want := range map[string]string{
		"users":    "- actions: [{generic_key: {\"descriptor_key\":\"plan\",\"descriptor_value\":\"free tier\"}}, {remote_address: {}}]\n",
		"api/path": "descriptors:\n  - key: remote_address\n    rate_limit:\n",
		"api/ip":   "descriptors:\n  - key: masked_remote_address\n    rate_limit:\n",
	} {
		f := healthy(rule)
		f.Peaks.P99, f.Peaks.FirstPeriods = 0.01, 49_000
		got := of(t, f)
		if len(got) != 1 || got[0].Cause != WrongKey || got[0].Number != 0.98 || !strings.Contains(got[0].YAML, want) {
			t.Errorf("%s: %+v", rule, got)
			continue
		}
		parse(t, got[0].YAML)
	}
}

// TestProxy: a rule that counts addresses, all of which are one, stands behind a proxy.
func TestProxy(t *testing.T) {
	f := healthy("api/ip")
	oneKeyOnly(&f)
	got := of(t, f)
	if len(got) != 1 || !strings.Contains(got[0].YAML, "trusted-proxies: [") || got[0].Command != "" {
		t.Errorf("%+v", got)
	}
}

// TestHistory: a denial counts where the history of the last seven days has it.
func TestHistory(t *testing.T) {
	f := healthy("users")
	isLoose(&f)
	f.Denied = 3
	for days, want := range map[int]int{6: 0, 8: 1} {
		got := of(t, f, func(in *Input) {
			in.History = func(of facts.Of) facts.History {
				if of != (facts.Of{Domain: "api", Rule: "users"}) {
					t.Errorf("asked for %+v", of)
				}
				return facts.History{Points: []facts.Point{{At: now.Add(-time.Duration(days) * 24 * time.Hour), Counts: facts.Counts{Denied: 3}}}}
			}
		})
		if len(got) != want {
			t.Errorf("denied %d days ago: %+v", days, got)
		}
	}
}

// TestUnbiased: where denials changed nothing, and where there was none, nothing is at least so.
func TestUnbiased(t *testing.T) {
	f := healthy("users")
	tight(&f)
	got := of(t, f, func(in *Input) {
		in.Unbiased = true
		in.Command = func(spec stint.Spec) string { return "replay " + spec.Algorithm.String() }
		in.HTTP = "http:\n  rate_limits:\n    - actions: [{path: {}}]\n"
	})
	if len(got) != 1 || got[0].AtLeast || strings.Contains(got[0].Text, "at least") || got[0].Command != "replay fixed_window" ||
		!strings.HasSuffix(got[0].YAML, "- actions: [{path: {}}]\n") {
		t.Errorf("%+v", got)
	}
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	Write(&b, []Advice{{Text: "one is wrong.", YAML: "a\nb\n"}, {Text: "two is wrong.", Candidate: "c\n", Command: "d"}}, 80)
	want := "one is wrong.\n\n  Change it to:\n    a\n    b\n\ntwo is wrong.\n\n  Or try it beside the limit in force, where it denies nobody:\n    c\n\n" +
		"  See what the change does to an access log:\n    d\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
}
