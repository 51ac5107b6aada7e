package facts

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

func table(t testing.TB, yaml string) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(yaml)})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

const (
	allowing = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {per: 1s, requests: 1000000000}\n"
	denying  = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {per: 1d, requests: 1}\n"
)

// none is an observer that does nothing.
type none struct{}

func (none) Decided(*limiter.Verdict, time.Duration, error) {}

// cost returns the median over rounds of what facts add to a decision, in nanoseconds. Rounds with facts and
// without them alternate. The background goroutine takes over the notes between rounds.
func cost(t testing.TB, yaml string, keys, rounds, each int) float64 {
	t.Helper()
	rules := table(t, yaml)
	f, err := New(Options{Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	f.Reloaded(rules, true)
	store := memory.New(memory.Options{Budget: 1 << 30})
	with := limiter.New(store, rules, limiter.Options{Observer: f})
	without := limiter.New(store, rules, limiter.Options{Observer: none{}})
	requests := make([]limiter.Request, keys)
	for i := range requests {
		requests[i] = limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: fmt.Sprintf("user-%08d", i)}}, Cost: 1}}}
	}
	var v limiter.Verdict
	round := func(l *limiter.Limiter) time.Duration {
		began := time.Now()
		for i := range each {
			if err := l.Decide(context.Background(), &requests[i%keys], &v); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(began)
	}
	round(without)
	var differences []float64
	for i := range rounds {
		var a, b time.Duration
		if i%2 == 0 {
			a, b = round(with), round(without)
		} else {
			b, a = round(without), round(with)
		}
		if i%16 == 0 {
			f.Flush()
		}
		differences = append(differences, float64(a-b)/float64(each))
	}
	slices.Sort(differences)
	return differences[len(differences)/2]
}

func BenchmarkObserver(b *testing.B) {
	for _, keys := range []int{1, 100, 10000} {
		for name, yaml := range map[string]string{"allowed": allowing, "denied": denying} {
			b.Run(fmt.Sprintf("%s/%dkeys", name, keys), func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(cost(b, yaml, keys, 1000, 1000), "ns/decision")
				}
			})
		}
	}
}

var _ = stint.Never
