package rule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/rulefile"
)

// only returns the rules of a domain of descriptors with these limits.
func only(t testing.TB, limits string, envoy bool) []*rule.Rule {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "test.yaml", Envoy: envoy, Data: []byte("domain: api\ndescriptors:\n" + limits)})
	testkit.Must(t, err)
	return table.Rules()
}

// With changes the numbers and what follows from them, and nothing else.
func TestWith(t *testing.T) {
	for _, tt := range []struct {
		name, limit string
		numbers     rule.Numbers
		limits      string // of Limit
		stored      string // where it differs
	}{
		{"requests", "{per: 1m, requests: 10}", rule.Numbers{Requests: 100}, "fixed_window 100/1m0s burst 0", ""},
		{"lower", "{per: 1m, requests: 10}", rule.Numbers{Requests: 1}, "fixed_window 1/1m0s burst 0", ""},
		{"per", "{per: 1m, requests: 10, algorithm: sliding_log}", rule.Numbers{Per: time.Second}, "sliding_log 10/1s burst 0", ""},
		{"a burst that equals the requests", "{per: 1m, requests: 10, algorithm: token_bucket}", rule.Numbers{Requests: 100}, "token_bucket 100/1m0s burst 100", ""},
		{"a burst of its own", "{per: 1m, requests: 10, algorithm: token_bucket, burst: 3}", rule.Numbers{Requests: 100}, "token_bucket 100/1m0s burst 3", ""},
		{"burst alone", "{per: 1m, requests: 10, algorithm: token_bucket}", rule.Numbers{Burst: 4}, "token_bucket 10/1m0s burst 4", ""},
		{"all", "{per: 1m, requests: 10, algorithm: leaky_bucket}", rule.Numbers{Requests: 2, Per: time.Second, Burst: 4}, "leaky_bucket 2/1s burst 4", ""},
		{"soft", "{per: 1m, requests: 10, soft: 10%}", rule.Numbers{Requests: 100}, "fixed_window 100/1m0s burst 0", "fixed_window 110/1m0s burst 0"},
		{"calendar", "{unit: month, requests_per_unit: 10, time_zone: Europe/Madrid}", rule.Numbers{Requests: 100}, "fixed_window 100/0s burst 0", ""},
		{"unlimited", "{per: 1m, requests: 10, soft: 10%}", rule.Numbers{Unlimited: true}, "unlimited 0/0s burst 0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := only(t, "  - key: user\n    rate_limit: "+tt.limit+"\n", false)[0]
			before := *r
			made, err := r.With(tt.numbers)
			testkit.Must(t, err)
			if tt.stored == "" {
				tt.stored = tt.limits
			}
			if got := numbersOf(made.Limit); got != tt.limits {
				t.Errorf("the limit is %s, want %s", got, tt.limits)
			}
			if got := numbersOf(made.Stored); got != tt.stored {
				t.Errorf("the stored limit is %s, want %s", got, tt.stored)
			}
			if made.Original() != r || r.Original() != r || made.Name != r.Name || made.Terms != r.Terms {
				t.Errorf("the copy is of %v, with terms %p, want %p", made.Base, made.Terms, r.Terms)
			}
			key := []rule.Entry{{Key: "user", Value: "42"}}
			if string(made.AppendKey(nil, key)) != string(r.AppendKey(nil, key)) {
				t.Error("the copy has another key")
			}
			if before.Limit != r.Limit || before.Stored != r.Stored || r.Base != nil {
				t.Error("the rule itself has changed")
			}
		})
	}
}

func numbersOf(l *stint.Limit) string {
	s := l.Spec()
	return s.Algorithm.String() + " " + fmt.Sprint(s.Requests) + "/" + s.Per.String() + " burst " + fmt.Sprint(s.Burst)
}

// The limits that a rule has beside its own follow the numbers.
func TestWithDerived(t *testing.T) {
	elastic := only(t, "  - key: user\n    rate_limit: {per: 1m, requests: 10, elastic: {from: load, below: 70%, upto: 300%}}\n", false)[0]
	made, err := elastic.With(rule.Numbers{Requests: 100})
	testkit.Must(t, err)
	if made.Elastic.Cap.Spec().Requests != 300 || elastic.Elastic.Cap.Spec().Requests != 30 || made.Elastic.Gauge != "api" {
		t.Errorf("the cap is %d, and that of the rule %d", made.Elastic.Cap.Spec().Requests, elastic.Elastic.Cap.Spec().Requests)
	}
	envoy := only(t, "  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 10}\n", true)[0]
	if made, err = envoy.With(rule.Numbers{Requests: 100}); err != nil || made.Tally.Spec().Requests != 101 || !made.Tally.Spec().Overdraw {
		t.Errorf("the tally is %+v, %v", made.Tally, err)
	}
	const local = "  - key: user\n    rate_limit: {per: 1m, requests: 1000, algorithm: token_bucket, on_store_failure: local, local_share: 10%, nodes: 5"
	strict := only(t, local+"}\n", false)[0]
	if made, err = strict.With(rule.Numbers{Requests: 10_000}); err != nil || made.Local.Spec().Burst != 200 || strict.Local.Spec().Burst != 20 {
		t.Errorf("the local share is %+v, %v", made.Local, err)
	}
	// The shares of a leased rule stay, and the store has the rest.
	leased := only(t, local+", coordination: leased}\n", false)[0]
	made, err = leased.With(rule.Numbers{Requests: 10_000})
	testkit.Must(t, err)
	if made.Terms.Own != leased.Terms.Own || made.Local != leased.Terms.Own || made.Terms.Rest.Capacity() != 10_000-5*20 || made.Terms == leased.Terms || made.Terms.Rule != leased.Name {
		t.Errorf("the terms are %+v", made.Terms)
	}
	made, err = leased.With(rule.Numbers{Requests: 50}) // less than the shares of 5 nodes
	testkit.Must(t, err)
	if made.Terms.Own != nil || made.Terms.Coordination != rule.Leased || limits.Stored(made.Terms).Capacity() != 50 || made.Local.Capacity() != 1 {
		t.Errorf("the terms are %+v", made.Terms)
	}
	responses := only(t, "  - key: user\n    rate_limit: {per: 1m, requests: 10, algorithm: token_bucket, count: responses, statuses: [401]}\n", false)[0]
	if made, err = responses.With(rule.Numbers{Requests: 100}); err != nil || made.Answers != responses.Answers || !made.Stored.Spec().Reserve {
		t.Errorf("%+v, %v", made, err)
	}
}

// The word of the file for the period is dropped with the period.
func TestWithUnit(t *testing.T) {
	r := only(t, "  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 10}\n", false)[0]
	for n, want := range map[rule.Numbers]string{{Per: time.Hour}: "", {Requests: 5}: "minute"} {
		if made, err := r.With(n); err != nil || made.Unit != want {
			t.Errorf("%+v: the unit is %q, %v, want %q", n, made.Unit, err, want)
		}
	}
}

// A penalty counts denied tries in the period of the limit, whatever that is, and stays otherwise.
func TestWithPenalty(t *testing.T) {
	r := only(t, "  - key: user\n    rate_limit: {per: 1m, requests: 10, penalty: {after: 3, ladder: [1m, 1h]}}\n", false)[0]
	for n, want := range map[rule.Numbers]time.Duration{{Per: time.Hour}: time.Hour, {Requests: 5}: time.Minute, {Unlimited: true}: time.Minute} {
		made, err := r.With(n)
		if err != nil || made.Penalty == nil || made.Penalty.Spec().Per != want || made.Penalty.Spec().Ladder != r.Penalty.Spec().Ladder {
			t.Errorf("%+v: %v, penalty %v, want one of %s", n, err, made.Penalty, want)
		}
	}
}

// Numbers that do not fit are refused, with the field.
func TestWithRefused(t *testing.T) {
	for _, tt := range []struct {
		limit   string
		numbers rule.Numbers
		field   string
		problem string
	}{
		{"{per: 1m, requests: 10}", rule.Numbers{Burst: 5}, "burst", "not a word of fixed_window"},
		{"{unit: day, requests_per_unit: 10, time_zone: UTC}", rule.Numbers{Per: time.Hour}, "per", "calendar"},
		{"{per: 1m, requests: 10, algorithm: sliding_window, blocks: 60}", rule.Numbers{Per: 10*time.Millisecond + time.Microsecond}, "per", "blocks"},
		{"{per: 1m, requests: 10, algorithm: sliding_log, min_interval: 1s}", rule.Numbers{Per: time.Second / 2}, "per", "min_interval"},
		{"{per: 1s, requests: 10, algorithm: token_bucket}", rule.Numbers{Requests: 2_000_000}, "requests", "10^6 per second"},
		{"{per: 1d, requests: 1, algorithm: token_bucket}", rule.Numbers{Burst: 1_000_000}, "burst", "50 years"},
		{"{per: 1m, requests: 10, penalty: {after: 3, ladder: [1m], decay: 2m}}", rule.Numbers{Requests: 5, Per: time.Hour}, "per", "decay"},
		{"{unlimited: true}", rule.Numbers{Requests: 5}, "requests", "unlimited"},
	} {
		r := only(t, "  - key: user\n    rate_limit: "+tt.limit+"\n", false)[0]
		made, err := r.With(tt.numbers)
		refused, ok := errors.AsType[*rule.NumbersError](err)
		if !ok || made != nil || refused.Field != tt.field || !strings.Contains(refused.Problem, tt.problem) || refused.Hint == "" {
			t.Errorf("%s with %+v: %v, want %s: ... %s ...", tt.limit, tt.numbers, err, tt.field, tt.problem)
		}
	}
}
