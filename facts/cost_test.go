package facts

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"stint/internal/testkit"
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

// switched is an observer that may be off.
type switched struct {
	limiter.Observer
	on bool
}

func (s *switched) Decided(v *limiter.Verdict, took time.Duration, err error) {
	if s.on {
		s.Observer.Decided(v, took, err)
	}
}

// cost returns the median over rounds of what facts add to a decision, and what one takes without them, in
// nanoseconds. Rounds with facts and
// without them alternate. The background goroutine takes over the notes between rounds.
func cost(t testing.TB, yaml string, keys, rounds, each int) (added, plain float64) {
	t.Helper()
	rules := table(t, yaml)
	f, err := New(Options{Node: "a", Counts: func(_, _ string) Counts { return Counts{Allowed: 1} }})
	if err != nil {
		t.Fatal(err)
	}
	f.Reloaded(rules, true)
	store := memory.New(memory.Options{Budget: 1 << 30})
	observer := &switched{Observer: f}
	l := limiter.New(store, rules, limiter.Options{Observer: observer})
	requests := make([]limiter.Request, keys)
	for i := range requests {
		requests[i] = limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: fmt.Sprintf("user-%08d", i)}}, Cost: 1}}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { f.Run(ctx) })
	defer func() { cancel(); group.Wait() }()
	var v limiter.Verdict
	round := func(on bool) time.Duration {
		observer.on = on
		began := time.Now()
		for i := range each {
			if err := l.Decide(context.Background(), &requests[i%keys], &v); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(began)
	}
	round(false)
	var differences, without []float64
	for i := range rounds {
		var a, b time.Duration
		if i%2 == 0 {
			a, b = round(true), round(false)
		} else {
			b, a = round(false), round(true)
		}
		differences = append(differences, float64(a-b)/float64(each))
		without = append(without, float64(b)/float64(each))
	}
	slices.Sort(differences)
	slices.Sort(without)
	return differences[rounds/2], without[rounds/2]
}

// What facts add to a decision is small beside it, on any machine.
func TestObserverCost(t *testing.T) {
	if testkit.Race {
		t.Log("the race detector makes atomic loads dear: measured without it")
		return
	}
	for name, yaml := range map[string]string{"allowed": allowing, "denied": denying} {
		if added, plain := cost(t, yaml, 100, 20_000, 50); added > plain/4 {
			t.Errorf("%s: facts add %.1f ns to a decision of %.0f ns, more than a quarter", name, added, plain)
		}
	}
}

func BenchmarkObserver(b *testing.B) {
	for _, keys := range []int{1, 100, 10000} {
		for name, yaml := range map[string]string{"allowed": allowing, "denied": denying} {
			b.Run(fmt.Sprintf("%s/%dkeys", name, keys), func(b *testing.B) {
				for b.Loop() {
					added, plain := cost(b, yaml, keys, 40_000, 50)
					b.ReportMetric(added, "ns/decision")
					b.ReportMetric(plain, "ns/without")
				}
			})
		}
	}
}
